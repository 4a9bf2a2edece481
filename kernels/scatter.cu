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
};

// COUNT index arrays of n entries each, into the axes `lengths` of an array of shape
// (outer, *lengths, inner). Negative entries count from the end.
template <int COUNT>
struct Picked {
    const long long* data[COUNT];
    long long lengths[COUNT];
    long long n, inner;

    // Where element i, of shape (outer, n, inner), of what they pick is; -1 outside of the array,
    // and for the position `skip` in the axes.
    __device__ __forceinline__ long long place(long long i, long long skip) const {
        const long long row = i / inner, outer = row / n, entry = row - outer * n;
        long long at = 0, size = 1;
        for (int axis = 0; axis < COUNT; ++axis) {
            long long k = data[axis][entry];
            if (k < 0) k += lengths[axis];
            if (k < 0 || k >= lengths[axis]) return -1;
            at = at * lengths[axis] + k;
            size *= lengths[axis];
        }
        return at == skip ? -1 : (outer * size + at) * inner + i - row * inner;
    }
};

}  // namespace gradhook
