// Matrix products of small arrays of any strides, with what a linear layer adds.
// The formulas they must equal: gradhook/ops/linalg.py (matmul), nn_linear.py.

namespace gradhook {

// batch (outer, inner) matrices m x k times k x n. left, right: strides of the two batch axes, of
// rows and of columns, in elements.
struct Product {
    long long outer, inner, m, n, k;
    long long left[4], right[4];

    // Where matrix number b begins.
    __device__ __forceinline__ long long start(const long long* strides, long long b) const {
        return b / inner * strides[0] + b % inner * strides[1];
    }
};

// out (outer, inner, m, n), contiguous. bias: n numbers added to every row, or null. sums: the sum
// over k of left's rows (m of them), or null: as if `right` had one more column, of ones.
template <typename T, typename F>
__device__ __forceinline__ void product(const T* left, const T* right, const T* bias, T* out,
                                        T* sums, const Product& p) {
    multiply<F>(
        p.outer * p.inner, p.m, p.n + (sums ? 1 : 0), p.k, p.left[3] == 1, p.right[2] == 1,
        [&](long long b) {
            const T* const from = left + p.start(p.left, b);
            return [&p, from](long long i, long long k) {
                return static_cast<F>(from[i * p.left[2] + k * p.left[3]]);
            };
        },
        [&](long long b) {
            const T* const from = right + p.start(p.right, b);
            return [&p, from](long long k, long long j) {
                return j == p.n ? F(1) : static_cast<F>(from[k * p.right[2] + j * p.right[3]]);
            };
        },
        [&](long long b, long long i, long long j, F sum) {
            if (j == p.n)
                sums[i] = static_cast<T>(sum);
            else
                out[(b * p.m + i) * p.n + j] =
                    static_cast<T>(bias ? sum + static_cast<F>(bias[j]) : sum);
        });
}

}  // namespace gradhook
