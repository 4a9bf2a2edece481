// Maxima of windows and the sums of their gradients on the CPU, plane by plane.
#pragma once

namespace gradhook {

// planes of `plane` elements, padded. rows: of windows, each of `length` windows, `step` elements
// apart. positions: of the kernel. width: of a row before padding; before: how far it was padded.
struct MaxPool {
    long long planes, plane, rows, length, step, positions, width, before;
};

// Every window of one row: the largest element, and which position has it; NaN is larger than all,
// the first of equal ones.
template <long long STEP, typename T, typename Number>
inline void largest_of_row(const T* from, const long long* offsets, const MaxPool& of, T* best,
                           Number* chosen) {
    const long long step = STEP ? STEP : of.step;
    for (long long p = 0; p < of.positions; ++p) {
        const T* const at = from + offsets[p];
        const Number number = static_cast<Number>(p);
        if (p == 0) {
            GRADHOOK_EACH
            for (long long i = 0; i < of.length; ++i) {
                best[i] = at[i * step];
                chosen[i] = 0;
            }
            continue;
        }
        GRADHOOK_EACH
        for (long long i = 0; i < of.length; ++i) {
            const T candidate = at[i * step];
            const bool better = candidate > best[i] || candidate != candidate;
            best[i] = better ? candidate : best[i];
            chosen[i] = better ? number : chosen[i];
        }
    }
}

// offsets: of each position in a padded plane. starts: of each row of windows there. lines: for
// each row of windows and position, where the row before padding starts that the position meets;
// columns: of each position along a row.
template <typename T, typename Number>
inline void max_pool(const MaxPool& of, const T* padded, T* out, long long* places,
                     const long long* offsets, const long long* starts, const long long* lines,
                     const long long* columns) {
    in_parts(of.planes, a_part(of.plane), [&](long long begin, long long end, long long) {
        const Room<Number> room(of.length);
        for (long long plane = begin; plane < end; ++plane)
            for (long long r = 0; r < of.rows; ++r) {
                const long long at = (plane * of.rows + r) * of.length;
                const T* const from = padded + plane * of.plane + starts[r];
                if (of.step == 1)
                    largest_of_row<1>(from, offsets, of, out + at, room.data);
                else if (of.step == 2)
                    largest_of_row<2>(from, offsets, of, out + at, room.data);
                else
                    largest_of_row<0>(from, offsets, of, out + at, room.data);
                const long long* const line = lines + r * of.positions;
                for (long long i = 0; i < of.length; ++i) {
                    const Number p = room.data[i];
                    const long long column = i * of.step - of.before + columns[p];
                    places[at + i] = line[p] + least(most(column, 0), of.width - 1);
                }
            }
    });
}

// out = 0, and to the element of each plane that `places` names what x has there. outside: set
// where a place is none of the plane's.
template <typename T>
inline void plane_scatter(const T* x, const long long* places, T* out, long long planes,
                          long long count, long long plane, int* outside) {
    in_parts(planes, a_part(plane), [&](long long begin, long long end, long long) {
        for (long long k = begin; k < end; ++k) {
            T* const to = out + k * plane;
            __builtin_memset(to, 0, static_cast<unsigned long>(plane) * sizeof(T));
            for (long long i = k * count; i < (k + 1) * count; ++i) {
                const long long at = places[i];
                if (at >= 0 && at < plane)
                    to[at] += x[i];
                else
                    *outside = 1;
            }
        }
    });
}

}  // namespace gradhook
