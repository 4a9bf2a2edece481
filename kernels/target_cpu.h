// The CPU target: the loops, reductions and tables of target_cuda.h for the machine's compiler.
// Kernel files hold only functors (DESIGN.md section 5).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>

#define __device__
#define __global__
#define __forceinline__ inline
#define GRADHOOK_TABLE const

namespace gradhook {

using std::erf;
using std::exp;
using std::fabs;
using std::isinf;
using std::isnan;
using std::log;
using std::log1p;
using std::sqrt;
using std::tanh;

// Calls body(i) for every i below n. Each element is independent; no order is promised.
template <typename Body>
inline void for_each_element(long long n, Body body) {
    for (long long i = 0; i < n; ++i) body(i);
}

// One thread: its value is the grid's.
template <typename Value, typename Combine, typename Last>
inline void reduce_grid(Value value, Value, Combine, Value*, unsigned*, Last last) {
    last(value);
}

template <typename F>
struct Row {
    using Sum = F;
    long long number, length;

    template <typename Operand>
    F load(const Operand& x, long long i) const {
        return static_cast<F>(x.at(number, i));
    }
    template <typename Operand, typename Element>
    void store(const Operand& out, Element element) const {
        for (long long i = 0; i < length; ++i) out.put(number, i, element(i));
    }
    template <typename Value, typename Combine, typename Element>
    Value reduce(Combine combine, Value neutral, Element element) const {
        Value value = neutral;
        for (long long i = 0; i < length; ++i) value = combine(value, element(i));
        return value;
    }
    template <typename Value, typename Combine, typename Element, typename Put>
    void scan(bool from_end, Combine combine, Value neutral, Element element, Put put) const {
        Value value = neutral;
        for (long long k = 0; k < length; ++k) {
            const long long i = from_end ? length - 1 - k : k;
            value = combine(value, element(i));
            put(i, value);
        }
    }
};

template <typename F, typename Body>
inline void for_each_row(long long rows, long long length, Body body) {
    for (long long r = 0; r < rows; ++r) {
        const Row<F> row{r, length};
        body(row);
    }
}

template <typename F, typename Body>
inline void for_each_lane(long long rows, long long length, Body body) {
    for_each_row<F>(rows, length, body);
}

template <typename F, typename Value, typename Combine, typename Each, typename Last>
inline void reduce_rows(long long rows, long long length, Value neutral, Combine combine,
                        Each each, Value*, unsigned*, Last last) {
    Value value = neutral;
    for_each_row<F>(rows, length, [&](const auto& row) { value = combine(value, each(row)); });
    last(value);
}

template <typename F, typename Element, typename Store>
inline void sum_columns(long long outer, long long length, long long inner, Element element,
                        Store store) {
    for (long long a = 0; a < outer; ++a)
        for (long long c = 0; c < inner; ++c) {
            F sum = 0;
            for (long long b = 0; b < length; ++b) sum += element(a, b, c);
            store(a, c, sum);
        }
}

template <typename F, typename Sum, typename Each, typename OfRow, typename Element,
          typename Store>
inline void rows_and_columns(long long rows, long long n, int, Each each, OfRow of_row,
                             Element element, Store store) {
    for (long long r = 0; r < rows; ++r) each(Row<F>{r, n});
    for (long long c = 0; c < n; ++c) {
        Sum sum{};
        for (long long r = 0; r < rows; ++r) {
            const Row<F> row{r, n};
            sum += element(row, of_row(row), c);
        }
        store(c, sum);
    }
}

template <typename F, typename Left, typename Right, typename Store>
inline void multiply(long long batch, long long m, long long n, long long k, bool, bool, Left left,
                     Right right, Store store) {
    for (long long b = 0; b < batch; ++b) {
        const auto from_left = left(b);
        const auto from_right = right(b);
        for (long long i = 0; i < m; ++i)
            for (long long j = 0; j < n; ++j) {
                F sum = 0;
                for (long long step = 0; step < k; ++step)
                    sum += from_left(i, step) * from_right(step, j);
                store(b, i, j, sum);
            }
    }
}

template <typename Table, typename Body>
inline void for_each_of_tensors(const Table& table, long long, Body body) {
    for (int t = 0; t < table.count; ++t)
        for (long long i = 0; i < table.size[t]; ++i) body(t, i);
}

template <typename F, typename Table, typename Element, typename Store>
inline void sum_of_tensors(const Table& table, long long chunk, Element element, Store store) {
    F sum = 0;
    for_each_of_tensors(table, chunk, [&](int t, long long i) { sum += element(t, i); });
    store(0LL, sum);
}

template <typename F>
inline F sum_everywhere(const F* values, long long n) {
    F sum = 0;
    for (long long i = 0; i < n; ++i) sum += values[i];
    return sum;
}

inline long long number_of_blocks() { return 1; }

inline bool is_first_thread() { return true; }

template <typename T, typename F>
inline void add_to(T* where, F value) {
    *where = static_cast<T>(static_cast<F>(*where) + value);
}

template <typename Count>
inline void count_up(Count* where) { *where += Count(1); }

}  // namespace gradhook
