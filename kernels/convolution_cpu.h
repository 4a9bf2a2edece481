// Convolution of stride 1 on the CPU, without columns: over planes laid out flat, each kernel
// position is the plane read from another start. What lies between the ends of two rows is
// computed, too, and left out of the result.
#pragma once

namespace gradhook {

#if defined(__AVX512F__)
constexpr int vector_bytes = 64, tile_rows = 8, tile_vectors = 3, sum_rows = 4, sum_columns_ = 6;
#elif defined(__AVX2__)
constexpr int vector_bytes = 32, tile_rows = 4, tile_vectors = 3, sum_rows = 2, sum_columns_ = 5;
#else
constexpr int vector_bytes = 16, tile_rows = 4, tile_vectors = 3, sum_rows = 2, sum_columns_ = 5;
#endif

template <typename T>
struct Vectors {
    typedef T Aligned __attribute__((vector_size(vector_bytes)));
    typedef T Any __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
    static constexpr int width = vector_bytes / sizeof(T);
};

// Rows of `length` elements, each put at its start in a plane.
struct PlaneRows {
    const long long* starts;
    long long count, length;
};

// batch samples of `channels` planes give `outs` planes. positions: kernel positions, each with its
// offset in the flat plane. wide: how far the windows reach in it. by_*: strides of the weight.
struct Convolution {
    long long batch, outs, channels, positions, plane, wide;
    long long in_rows, in_length, out_rows, out_length;
    long long by_out, by_channel, by_position;
    long long as_it_is;  // the input's planes are the planes
};

// The planes of one sample, with zeros around the rows; `planes` holds zeros there already.
template <typename T>
inline void spread(const T* from, long long channels, const PlaneRows& rows, long long plane,
                   T* planes) {
    for (long long c = 0; c < channels; ++c)
        for (long long r = 0; r < rows.count; ++r) {
            T* const to = planes + c * plane + rows.starts[r];
            GRADHOOK_EACH
            for (long long i = 0; i < rows.length; ++i) to[i] = from[i];
            from += rows.length;
        }
}

// tile_rows results over VECTORS vectors at `place`. weight: tile_rows numbers a term.
template <typename T, int VECTORS>
inline void tile(const T* planes, long long plane, const long long* offsets,
                 const Convolution& of, const T* weight, T* wide, long long stride) {
    using V = typename Vectors<T>::Aligned;
    using Any = typename Vectors<T>::Any;
    constexpr int width = Vectors<T>::width;
    V sums[tile_rows][VECTORS] = {};
    for (long long c = 0; c < of.channels; ++c, planes += plane)
        for (long long p = 0; p < of.positions; ++p, weight += tile_rows) {
            const T* const from = planes + offsets[p];
            V seen[VECTORS];
#pragma GCC unroll 8
            for (int v = 0; v < VECTORS; ++v)
                seen[v] = *reinterpret_cast<const Any*>(from + v * width);
#pragma GCC unroll 8
            for (int m = 0; m < tile_rows; ++m) {
                const T factor = weight[m];
#pragma GCC unroll 8
                for (int v = 0; v < VECTORS; ++v) sums[m][v] += factor * seen[v];
            }
        }
#pragma GCC unroll 8
    for (int m = 0; m < tile_rows; ++m)
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; ++v)
            *reinterpret_cast<Any*>(wide + m * stride + v * width) = sums[m][v];
}

// tile_rows results over all of `wide`.
template <typename T>
inline void tiles(const T* planes, const long long* offsets, const Convolution& of,
                  const T* weight, T* wide, long long stride) {
    constexpr long long one = Vectors<T>::width, all = one * tile_vectors;
    long long n = 0;
    for (; n + all <= of.wide; n += all)
        tile<T, tile_vectors>(planes + n, of.plane, offsets, of, weight, wide + n, stride);
    for (; n < of.wide; n += one)  // the planes are followed by a vector's length of memory
        tile<T, 1>(planes + n, of.plane, offsets, of, weight, wide + n, stride);
}

// How many samples, the last ones, need copies of their planes: a vector reads beyond a sample, and
// the array ends with the last one.
template <typename T>
inline long long samples_to_copy(const Convolution& of) {
    if (!of.as_it_is) return of.batch;
    return least(of.batch, parts_of(Vectors<T>::width, of.channels * of.plane));
}

// The planes of sample b: the input itself where they are that.
template <typename T>
inline const T* planes_of(const T* from, const Convolution& of, const PlaneRows& rows, long long b,
                          T* room) {
    const T* const sample = from + b * of.channels * rows.count * rows.length;
    if (!room) return sample;
    spread(sample, of.channels, rows, of.plane, room);
    return room;
}

// out[b, m] = bias[m] + the sum over channels c and positions p of weight[m, c, p] times plane
// (b, c) from offset p. not_a_number: set where the result has a NaN.
template <typename T>
inline void convolve(const Convolution& of, const T* in, const T* weight, const T* bias, T* out,
                     const long long* offsets, const long long* in_starts,
                     const long long* out_starts, int* not_a_number) {
    const PlaneRows in_rows{in_starts, of.in_rows, of.in_length};
    const long long terms = of.channels * of.positions, blocks = parts_of(of.outs, tile_rows);
    constexpr long long slack = Vectors<T>::width * (tile_vectors + 1);
    const Room<T> packed(blocks * terms * tile_rows);
    for (long long block = 0; block < blocks; ++block)
        for (long long c = 0; c < of.channels; ++c)
            for (long long p = 0; p < of.positions; ++p)
                for (int m = 0; m < tile_rows; ++m) {
                    const long long row = block * tile_rows + m;
                    packed.data[(block * terms + c * of.positions + p) * tile_rows + m] =
                        row < of.outs ? weight[row * of.by_out + c * of.by_channel +
                                               p * of.by_position]
                                      : T(0);
                }
    in_parts(of.batch, 1, [&](long long b, long long, long long) {
        const long long size = of.channels * of.plane + slack, stride = of.wide + slack;
        const bool whole = b < of.batch - samples_to_copy<T>(of);
        const Room<T> room(whole ? 0 : size), wide(tile_rows * stride);
        if (!whole) __builtin_memset(room.data, 0, static_cast<unsigned long>(size) * sizeof(T));
        const T* const planes = planes_of(in, of, in_rows, b, whole ? nullptr : room.data);
        for (long long block = 0; block < blocks; ++block) {
            tiles(planes, offsets, of, packed.data + block * terms * tile_rows, wide.data, stride);
            const long long end = least(of.outs, (block + 1) * tile_rows);
            for (long long m = block * tile_rows; m < end; ++m) {
                const T shift = bias ? bias[m] : T(0);
                T* to = out + (b * of.outs + m) * of.out_rows * of.out_length;
                bool is_bad = false;
                for (long long r = 0; r < of.out_rows; ++r, to += of.out_length) {
                    const T* const from = wide.data + m % tile_rows * stride + out_starts[r];
                    int bad = 0;
                    GRADHOOK_EACH
                    for (long long i = 0; i < of.out_length; ++i) {
                        to[i] = from[i] + shift;
                        bad |= to[i] != to[i];
                    }
                    is_bad = is_bad || bad;
                }
                if (is_bad) *not_a_number = 1;
            }
        }
    });
}

// sum_rows x sum_columns_ sums over `wide` elements, a vector each, added to `sums`.
template <typename T>
inline void inner_products(const T* grads, long long stride, const T* const* seen, long long wide,
                           typename Vectors<T>::Aligned* sums) {
    using V = typename Vectors<T>::Aligned;
    using Any = typename Vectors<T>::Any;
    V found[sum_rows][sum_columns_];
#pragma GCC unroll 8
    for (int m = 0; m < sum_rows; ++m)
#pragma GCC unroll 8
        for (int k = 0; k < sum_columns_; ++k) found[m][k] = sums[m * sum_columns_ + k];
    for (long long n = 0; n < wide; n += Vectors<T>::width) {
        V by[sum_rows];
#pragma GCC unroll 8
        for (int m = 0; m < sum_rows; ++m)
            by[m] = *reinterpret_cast<const Any*>(grads + m * stride + n);
#pragma GCC unroll 8
        for (int k = 0; k < sum_columns_; ++k) {
            const V at = *reinterpret_cast<const Any*>(seen[k] + n);
#pragma GCC unroll 8
            for (int m = 0; m < sum_rows; ++m) found[m][k] += by[m] * at;
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < sum_rows; ++m)
#pragma GCC unroll 8
        for (int k = 0; k < sum_columns_; ++k) sums[m * sum_columns_ + k] = found[m][k];
}

// out[m, c, p] = the sum over samples and windows of grad (b, m) times plane (b, c) from offset p.
// out_rows are the windows' rows.
template <typename T>
inline void convolve_weight(const Convolution& of, const T* in, const T* grad, T* out,
                            const long long* offsets, const long long* in_starts,
                            const long long* out_starts) {
    using V = typename Vectors<T>::Aligned;
    constexpr int width = Vectors<T>::width;
    const PlaneRows in_rows{in_starts, of.in_rows, of.in_length};
    const PlaneRows out_rows{out_starts, of.out_rows, of.out_length};
    const long long terms = of.channels * of.positions, tiles_ = parts_of(terms, sum_columns_);
    const long long stride = (of.wide + width - 1) / width * width;
    const long long size = of.channels * of.plane + 2 * width;
    const long long kept = samples_to_copy<T>(of);
    const Room<T> planes(kept * size);
    __builtin_memset(planes.data, 0, static_cast<unsigned long>(kept * size) * sizeof(T));
    in_parts(kept, 1, [&](long long k, long long, long long) {
        const long long b = of.batch - kept + k;
        spread(in + b * of.channels * in_rows.count * in_rows.length, of.channels, in_rows,
               of.plane, planes.data + k * size);
    });
    in_parts(parts_of(of.outs, sum_rows), 1, [&](long long block, long long, long long) {
        const long long first = block * sum_rows, rows = least(sum_rows, of.outs - first);
        const Room<T> wide(sum_rows * stride);
        __builtin_memset(wide.data, 0, static_cast<unsigned long>(sum_rows * stride) * sizeof(T));
        const long long bytes = tiles_ * sum_rows * sum_columns_ * vector_bytes;
        const Room<char> memory(bytes + vector_bytes);
        V* const sums = reinterpret_cast<V*>(
            (reinterpret_cast<unsigned long>(memory.data) + vector_bytes - 1) / vector_bytes *
            vector_bytes);
        __builtin_memset(sums, 0, static_cast<unsigned long>(bytes));
        for (long long b = 0; b < of.batch; ++b) {
            spread(grad + (b * of.outs + first) * out_rows.count * out_rows.length, rows, out_rows,
                   stride, wide.data);
            const long long copy = b - (of.batch - kept);
            const T* const from = copy >= 0 ? planes.data + copy * size
                                            : in + b * of.channels * of.plane;
            for (long long t = 0; t < tiles_; ++t) {
                const T* seen[sum_columns_];
                for (int k = 0; k < sum_columns_; ++k) {
                    const long long term = least(t * sum_columns_ + k, terms - 1);
                    seen[k] = from + term / of.positions * of.plane + offsets[term % of.positions];
                }
                inner_products(wide.data, stride, seen, of.wide,
                               sums + t * sum_rows * sum_columns_);
            }
        }
        for (long long m = 0; m < rows; ++m)
            for (long long term = 0; term < terms; ++term) {
                const V found = sums[(term / sum_columns_ * sum_rows + m) * sum_columns_ +
                                     term % sum_columns_];
                T sum = 0;
                for (int l = 0; l < width; ++l) sum += found[l];
                out[(first + m) * terms + term] = sum;
            }
    });
}

}  // namespace gradhook
