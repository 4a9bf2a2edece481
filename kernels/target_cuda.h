// The CUDA target: the loops, reductions and tables that kernel files are written over.
// The only file that knows threads, blocks and shared memory (DESIGN.md section 5). target_cpu.h
// offers the same names for the machine's C++ compiler.
#pragma once
#define GRADHOOK_TABLE const __grid_constant__

namespace gradhook {

// Calls body(i) for every i below n; the grid may have any size.
template <typename Body>
__device__ __forceinline__ void for_each_element(long long n, Body body) {
    const long long step = static_cast<long long>(blockDim.x) * gridDim.x;
    for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
         i += step)
        body(i);
}

// The same where body(i) adds to what it captured, or with add_to where others do.
template <typename Body>
__device__ __forceinline__ void take_elements(long long n, Body body) {
    for_each_element(n, body);
}

// ---- reductions

template <typename Value>
union Words {
    Value value;
    unsigned words[sizeof(Value) / 4];
    __device__ __forceinline__ Words() {}
    __device__ __forceinline__ explicit Words(Value given) : value(given) {}
};

template <typename Value>
__device__ __forceinline__ Value from_lane(Value value, int distance) {
    Words<Value> it(value);
    for (unsigned k = 0; k < sizeof(Value) / 4; ++k)
        it.words[k] = __shfl_xor_sync(0xffffffffu, it.words[k], distance);
    return it.value;
}

// A lane's value `distance` lanes below this one, its own where there is none.
template <typename Value>
__device__ __forceinline__ Value from_lane_below(Value value, int distance) {
    Words<Value> it(value);
    for (unsigned k = 0; k < sizeof(Value) / 4; ++k)
        it.words[k] = __shfl_up_sync(0xffffffffu, it.words[k], distance);
    return it.value;
}

// What another block wrote, past this processor's own cache.
template <typename Value>
__device__ __forceinline__ Value from_block(const Value* place) {
    Words<Value> it;
    for (unsigned k = 0; k < sizeof(Value) / 4; ++k)
        it.words[k] = reinterpret_cast<const volatile unsigned*>(place)[k];
    return it.value;
}

// The combination of one value a lane, in every lane. blockDim.x is a multiple of 32.
template <typename Value, typename Combine>
__device__ __forceinline__ Value reduce_warp(Value value, Combine combine) {
    for (int distance = 16; distance; distance >>= 1)
        value = combine(value, from_lane(value, distance));
    return value;
}

// This thread's number in its block, and how many there are: a multiple of 32.
__device__ __forceinline__ unsigned thread_number() {
    return threadIdx.y * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ unsigned thread_count() { return blockDim.x * blockDim.y; }

// The combination of one value a thread of a block, in every thread.
template <typename Value, typename Combine>
__device__ __forceinline__ Value reduce_block(Value value, Value neutral, Combine combine) {
    __shared__ unsigned long long room[32 * ((sizeof(Value) + 7) / 8)];
    Value* warps = reinterpret_cast<Value*>(room);
    const unsigned lane = thread_number() % 32;
    value = reduce_warp(value, combine);
    if (lane == 0) warps[thread_number() / 32] = value;
    __syncthreads();
    value = lane < thread_count() / 32 ? warps[lane] : neutral;
    __syncthreads();
    return reduce_warp(value, combine);
}

// Waits for all threads that work on a row, and shows each what the others wrote.
__device__ __forceinline__ void sync_row() {
    if (blockDim.x == 32) __syncwarp();
    else __syncthreads();
}

// The combination of the values of this lane and those below, in each lane.
template <typename Value, typename Combine>
__device__ __forceinline__ Value scan_warp(Value value, Combine combine) {
    for (int distance = 1; distance < 32; distance *= 2) {
        const Value before = from_lane_below(value, distance);
        if (static_cast<int>(threadIdx.x % 32) >= distance) value = combine(before, value);
    }
    return value;
}

// The same over the threads of a block or, where blockDim.x is 32, of a warp; before: what came
// earlier, which becomes the combination of all. blockDim.y is 1 for a block.
template <typename Value, typename Combine>
__device__ __forceinline__ Value scan_group(Value value, Value& before, Value neutral,
                                            Combine combine) {
    __shared__ unsigned long long room[33 * ((sizeof(Value) + 7) / 8)];
    Value* ends = reinterpret_cast<Value*>(room) + threadIdx.y * (blockDim.x == 32);
    const unsigned warp = threadIdx.x / 32, warps = blockDim.x / 32;
    value = scan_warp(value, combine);
    if (threadIdx.x % 32 == 31) ends[warp] = value;
    sync_row();
    Value carried = before;
    for (unsigned k = 0; k < warps; ++k) {
        if (k == warp) value = combine(carried, value);
        carried = combine(carried, ends[k]);
    }
    before = carried;
    sync_row();
    return value;
}

// The combination over the whole grid: last(total) is called once, by the block that ends last,
// which adds the blocks' values in order, so the bits do not depend on the schedule.
// partials: one Value a block; arrived: 0 before, 0 after.
template <typename Value, typename Combine, typename Last>
__device__ __forceinline__ void reduce_grid(Value value, Value neutral, Combine combine,
                                            Value* partials, unsigned* arrived, Last last) {
    __shared__ bool is_last;
    value = reduce_block(value, neutral, combine);
    if (thread_number() == 0) {
        partials[blockIdx.x] = value;
        __threadfence();
        is_last = atomicAdd(arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    value = neutral;
    for (unsigned k = thread_number(); k < gridDim.x; k += thread_count())
        value = combine(value, from_block(partials + k));
    value = reduce_block(value, neutral, combine);
    if (thread_number() == 0) {
        *arrived = 0;
        last(value);
    }
}

// ---- rows: a warp a row (blockDim = 32 x rows), a block a row (blockDim.y = 1), or a thread

template <typename F, bool alone = false>
struct Row {
    using Sum = F;
    long long number, length;

    template <typename Operand>
    __device__ __forceinline__ F load(const Operand& x, long long i) const {
        return static_cast<F>(x.at(number, i));
    }
    // Writes element(i) to every i of the row.
    template <typename Operand, typename Element>
    __device__ __forceinline__ void store(const Operand& out, Element element) const {
        const unsigned step = alone ? 1 : blockDim.x;
        for (long long i = alone ? 0 : threadIdx.x; i < length; i += step)
            out.put(number, i, element(i));
    }
    // The combination of element(i) over the row, known to all that work on it.
    template <typename Value, typename Combine, typename Element>
    __device__ __forceinline__ Value reduce(Combine combine, Value neutral,
                                            Element element) const {
        Value value = neutral;
        const unsigned step = alone ? 1 : blockDim.x;
        for (long long i = alone ? 0 : threadIdx.x; i < length; i += step)
            value = combine(value, element(i));
        if constexpr (alone) return value;
        else if (blockDim.x == 32) return reduce_warp(value, combine);
        else return reduce_block(value, neutral, combine);
    }
    // put(i, the combination of element(j) for all j up to i), or from the end down to i.
    template <typename Value, typename Combine, typename Element, typename Put>
    __device__ __forceinline__ void scan(bool from_end, Combine combine, Value neutral,
                                         Element element, Put put) const {
        Value before = neutral;
        const unsigned step = alone ? 1 : blockDim.x;
        for (long long begin = 0; begin < length; begin += step) {
            const long long k = begin + (alone ? 0 : threadIdx.x);
            const long long i = from_end ? length - 1 - k : k;
            Value value = k < length ? element(i) : neutral;
            if constexpr (alone) before = value = combine(before, value);
            else value = scan_group(value, before, neutral, combine);
            if (k < length) put(i, value);
        }
        if constexpr (!alone) sync_row();
    }
};

// A row that one thread works on.
template <typename F>
using Lane = Row<F, true>;

// Calls body(row) for every row below `rows`, each of `length` elements; sums are made in F.
template <typename F, typename Body>
__device__ __forceinline__ void for_each_row(long long rows, long long length, Body body) {
    const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
    for (long long r = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
         r += step) {
        const Row<F> row{r, length};
        body(row);
    }
}

// The same with a thread a row: for many rows whose neighbours lie side by side in memory.
// blockDim.y is 1.
template <typename F, typename Body>
__device__ __forceinline__ void for_each_lane(long long rows, long long length, Body body) {
    for_each_element(rows, [&](long long r) { body(Lane<F>{r, length}); });
}

// The combination of each(row) over all rows: last(total) once, as in reduce_grid. each(row) is
// known to all that work on the row.
template <typename F, typename Value, typename Combine, typename Each, typename Last>
__device__ __forceinline__ void reduce_rows(long long rows, long long length, Value neutral,
                                            Combine combine, Each each, Value* partials,
                                            unsigned* arrived, Last last) {
    Value value = neutral;
    for_each_row<F>(rows, length, [&](const auto& row) { value = combine(value, each(row)); });
    reduce_grid(threadIdx.x == 0 ? value : neutral, neutral, combine, partials, arrived, last);
}

// ---- columns: out(a, c) is the combination of element(a, b, c) over b. blockDim = 32 x 8.

template <typename F, typename Element, typename Store>
__device__ __forceinline__ void sum_columns(long long outer, long long length, long long inner,
                                            Element element, Store store) {
    __shared__ F part[8][33];
    const long long tiles = (inner + 31) / 32;
    for (long long tile = blockIdx.x; tile < outer * tiles; tile += gridDim.x) {
        const long long a = tile / tiles, c = tile % tiles * 32 + threadIdx.x;
        F sum = 0;
        if (c < inner)
            for (long long b = threadIdx.y; b < length; b += 8) sum += element(a, b, c);
        part[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && c < inner) {
            for (int k = 1; k < 8; ++k) sum += part[k][threadIdx.x];
            store(a, c, sum);
        }
        __syncthreads();
    }
}

// Rows and column sums in one launch: each(row) for every row by the first `row_blocks` blocks;
// store(c, sum of element(row, of_row(row), c) over the rows) for every column by the others, a
// block for 32 columns. They share nothing, so each computes of_row anew: for small matrices.
// blockDim = 32 x 8.
template <typename F, typename Sum, typename Each, typename OfRow, typename Element,
          typename Store>
__device__ __forceinline__ void rows_and_columns(long long rows, long long n, int row_blocks,
                                                 Each each, OfRow of_row, Element element,
                                                 Store store) {
    if (static_cast<int>(blockIdx.x) < row_blocks) {
        const long long step = static_cast<long long>(row_blocks) * blockDim.y;
        for (long long r = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y; r < rows;
             r += step)
            each(Row<F>{r, n});
        return;
    }
    __shared__ Sum part[8][33];
    const long long c = (static_cast<long long>(blockIdx.x) - row_blocks) * 32 + threadIdx.x;
    Sum sum{};
    for (long long r = threadIdx.y; r < rows; r += 8) {
        const Row<F> row{r, n};
        const auto found = of_row(row);
        if (c < n) sum += element(row, found, c);
    }
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && c < n) {
        for (int k = 1; k < 8; ++k) sum += part[k][threadIdx.x];
        store(c, sum);
    }
}

// ---- products: store(b, i, j, sum over k of left(b)(i, k) * right(b)(k, j)), added in the order
// of k. left_by_rows, right_by_columns: k is what neighbours in memory differ by.
// blockDim = 32 x 8; a block makes tiles of 32 x 32.

template <typename F, typename Left, typename Right, typename Store>
__device__ __forceinline__ void multiply(long long batch, long long m, long long n, long long k,
                                         bool left_by_rows, bool right_by_columns, Left left,
                                         Right right, Store store) {
    __shared__ F a[32][33], b[32][33];
    const long long down = (m + 31) / 32, across = (n + 31) / 32;
    const int x = threadIdx.x;
    for (long long tile = blockIdx.x; tile < batch * down * across; tile += gridDim.x) {
        const long long matrix = tile / (down * across);
        const long long i0 = tile / across % down * 32, j0 = tile % across * 32;
        const auto from_left = left(matrix);
        const auto from_right = right(matrix);
        F sums[4] = {F(0), F(0), F(0), F(0)};
        for (long long k0 = 0; k0 < k; k0 += 32) {
            for (int y = threadIdx.y; y < 32; y += 8) {
                const int ai = left_by_rows ? y : x, ak = left_by_rows ? x : y;
                const int bk = right_by_columns ? x : y, bj = right_by_columns ? y : x;
                a[ai][ak] = i0 + ai < m && k0 + ak < k ? from_left(i0 + ai, k0 + ak) : F(0);
                b[bk][bj] = k0 + bk < k && j0 + bj < n ? from_right(k0 + bk, j0 + bj) : F(0);
            }
            __syncthreads();
            const int depth = k - k0 < 32 ? static_cast<int>(k - k0) : 32;
            for (int kk = 0; kk < depth; ++kk)
                for (int part = 0; part < 4; ++part)
                    sums[part] += a[threadIdx.y + 8 * part][kk] * b[kk][x];
            __syncthreads();
        }
        for (int part = 0; part < 4; ++part) {
            const long long i = i0 + threadIdx.y + 8 * part, j = j0 + x;
            if (i < m && j < n) store(matrix, i, j, sums[part]);
        }
    }
}

// ---- several tensors in one launch: block b works on a chunk of one of them

template <typename Table>
__device__ __forceinline__ int tensor_of_block(const Table& table) {
    int low = 0, high = table.count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (table.first_block[middle] <= static_cast<int>(blockIdx.x)) low = middle;
        else high = middle - 1;
    }
    return low;
}

// Calls body(tensor, i) for every element i of every tensor in the table.
template <typename Table, typename Body>
__device__ __forceinline__ void for_each_of_tensors(const Table& table, long long chunk,
                                                    Body body) {
    const int tensor = tensor_of_block(table);
    const long long begin = (static_cast<int>(blockIdx.x) - table.first_block[tensor]) * chunk;
    const long long end = min(begin + chunk, table.size[tensor]);
    for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) body(tensor, i);
}

// store(block, sum) once a block: the sum of element(tensor, i) over the block's chunk.
template <typename F, typename Table, typename Element, typename Store>
__device__ __forceinline__ void sum_of_tensors(const Table& table, long long chunk,
                                               Element element, Store store) {
    F sum = 0;
    for_each_of_tensors(table, chunk, [&](int t, long long i) { sum += element(t, i); });
    sum = reduce_block(sum, F(0), [](F a, F b) { return a + b; });
    if (threadIdx.x == 0) store(static_cast<long long>(blockIdx.x), sum);
}

// The sum of n numbers, known to every thread of every block; each block adds them anew.
template <typename F>
__device__ __forceinline__ F sum_everywhere(const F* values, long long n) {
    F sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += values[i];
    return reduce_block(sum, F(0), [](F a, F b) { return a + b; });
}

// How many blocks share the work, and whether this is the first thread of them.
__device__ __forceinline__ long long number_of_blocks() { return gridDim.x; }

__device__ __forceinline__ bool is_first_thread() { return blockIdx.x + threadIdx.x == 0; }

// *where += value, with others that do so.
template <typename T, typename F>
__device__ __forceinline__ void add_to(T* where, F value) {
    if constexpr (sizeof(T) >= 4) {
        atomicAdd(where, static_cast<T>(value));
    } else {  // a half of a word
        auto* word = reinterpret_cast<unsigned*>(reinterpret_cast<size_t>(where) & ~size_t(3));
        const unsigned shift = reinterpret_cast<size_t>(where) & 2 ? 16 : 0;
        unsigned seen = *word, expected;
        do {
            expected = seen;
            union {
                unsigned short bits;
                T number;
            } half{static_cast<unsigned short>(expected >> shift)};
            half.number = static_cast<T>(static_cast<F>(half.number) + value);
            const unsigned changed = (expected & ~(0xffffu << shift)) |
                                     static_cast<unsigned>(half.bits) << shift;
            seen = atomicCAS(word, expected, changed);
        } while (seen != expected);
    }
}

template <typename Count>
__device__ __forceinline__ void count_up(Count* where) { atomicAdd(where, Count(1)); }

}  // namespace gradhook
