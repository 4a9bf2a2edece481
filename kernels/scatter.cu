// Elements and rows picked by an index, and sums of what was picked.
// The formulas they must equal: gradhook/ops/scatter.py, nn_embedding.py.

namespace gradhook {

// An index array of shape (outer, n, inner) into an array of shape (outer, length, inner).
struct Index {
    const long long* data;
    long long n, inner, length;

    // Where element i points to; -1 outside of the array.
    __device__ __forceinline__ long long place(long long i) const {
        const long long k = data[i];
        if (k < 0 || k >= length) return -1;
        return (i / inner / n * length + k) * inner + i % inner;
    }
    // Where element i of a row that the index picks points to: the index is of shape (n), the row
    // of `inner` elements. -1 also for the row `skip`.
    __device__ __forceinline__ long long row_place(long long i, long long skip) const {
        const long long k = data[i / inner];
        return k < 0 || k >= length || k == skip ? -1 : k * inner + i % inner;
    }
};

}  // namespace gradhook
