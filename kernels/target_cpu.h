// The CPU target: the loops, reductions and tables of target_cuda.h for the machine's compiler.
// Kernel files hold only functors (DESIGN.md section 5). Work is cut into parts that depend on its
// size alone, so that results have the same bits at any number of threads.
#pragma once
#include "math_cpu.h"

#define __device__
#define __global__ __attribute__((visibility("default")))
#define __forceinline__ inline __attribute__((always_inline))
#define GRADHOOK_TABLE const

#if defined(__clang__)
#define GRADHOOK_EACH _Pragma("clang loop vectorize(assume_safety)")
#else
#define GRADHOOK_EACH _Pragma("GCC ivdep")
#endif

namespace gradhook {

// Calls task(context, part) for every part: on the caller's thread, unless the library was given
// the pool of threads_cpu.cpp.
using Task = void (*)(void* context, long long part);
inline void run_here(Task task, void* context, long long parts) {
    for (long long part = 0; part < parts; ++part) task(context, part);
}
static void (*run)(Task, void*, long long) = run_here;

inline long long least(long long a, long long b) { return b < a ? b : a; }
inline long long most(long long a, long long b) { return a < b ? b : a; }

// Memory for so many values within one call.
template <typename Value>
struct Room {
    Value* data;
    explicit Room(long long count) : data(new Value[static_cast<unsigned long long>(count + 1)]) {}
    Room(const Room&) = delete;
    ~Room() { delete[] data; }
};

constexpr long long elements_a_part = 1 << 14;
constexpr int lanes = 32;  // of a reduction

// Calls body(begin, end, part) for parts of `step` below n.
template <typename Body>
inline void in_parts(long long n, long long step, Body body) {
    if (n <= step) {
        if (n > 0) body(0, n, 0);
        return;
    }
    struct Context {
        Body& body;
        long long n, step;
    } context{body, n, step};
    const auto task = [](void* given, long long part) {
        const Context& of = *static_cast<Context*>(given);
        of.body(part * of.step, least(of.n, (part + 1) * of.step), part);
    };
    run(task, &context, (n + step - 1) / step);
}

inline long long parts_of(long long n, long long step) { return n ? (n + step - 1) / step : 0; }

// How many of these, of so many elements each, make a part.
inline long long a_part(long long elements) {
    return most(1LL, elements_a_part / most(1LL, elements));
}

// Calls body(i) for every i below n. Each element is independent; no order is promised.
template <typename Body>
inline void for_each_element(long long n, Body body) {
    // few elements take less time than waking a thread
    const long long step = n < 16 * elements_a_part ? most(n, 1) : elements_a_part;
    in_parts(n, step, [body](long long begin, long long end, long long) {
        GRADHOOK_EACH
        for (long long i = begin; i < end; ++i) body(i);
    });
}

// The same where body(i) adds to what it captured, or with add_to where others do: in order.
template <typename Body>
inline void take_elements(long long n, Body body) {
    for (long long i = 0; i < n; ++i) body(i);
}

// One thread: its value is the grid's.
template <typename Value, typename Combine, typename Last>
inline void reduce_grid(Value value, Value, Combine, Value*, unsigned*, Last last) {
    last(value);
}

// The combination of the first COUNT values, in pairs that are COUNT / 2 apart.
template <int COUNT, typename Value, typename Combine>
inline Value combined(Value* values, Combine combine) {
    if constexpr (COUNT == 1) {
        return values[0];
    } else {
        GRADHOOK_EACH
        for (int l = 0; l < COUNT / 2; ++l)
            values[l] = combine(values[l], values[l + COUNT / 2]);
        return combined<COUNT / 2>(values, combine);
    }
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
        GRADHOOK_EACH
        for (long long i = 0; i < length; ++i) out.put(number, i, element(i));
    }
    // Lane l has the elements l, l + lanes, ...; then the lanes are combined in pairs.
    template <typename Value, typename Combine, typename Element>
    Value reduce(Combine combine, Value neutral, Element element) const {
        if (length < lanes) {
            Value value = neutral;
            for (long long i = 0; i < length; ++i) value = combine(value, element(i));
            return value;
        }
        Value found[lanes];
        for (int l = 0; l < lanes; ++l) found[l] = neutral;
        long long i = 0;
        for (; i + lanes <= length; i += lanes) {
            GRADHOOK_EACH
            for (int l = 0; l < lanes; ++l) found[l] = combine(found[l], element(i + l));
        }
        const int rest = static_cast<int>(length - i);
        GRADHOOK_EACH
        for (int l = 0; l < rest; ++l) found[l] = combine(found[l], element(i + l));
        return combined<lanes>(found, combine);
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

template <typename A, typename B>
constexpr bool is_same = false;
template <typename A>
constexpr bool is_same<A, A> = true;

// Keeps the elements in `out` where that rounds nothing.
template <typename F, typename Out, typename Element, typename Last>
inline void store_shares(const Row<F>& row, Out out, Element element, Last last) {
    const auto add = [](F a, F b) { return a + b; };
    if constexpr (is_same<decltype(out.at(0, 0)), F>) {
        const F total = row.reduce(add, F(0), [&](long long i) {
            const F found = element(i);
            out.put(row.number, i, found);
            return found;
        });
        row.store(out, [&](long long i) { return last(i, out.at(row.number, i), total); });
    } else {
        const F total = row.reduce(add, F(0), element);
        row.store(out, [&](long long i) { return last(i, element(i), total); });
    }
}

template <typename F, typename Body>
inline void for_each_row(long long rows, long long length, Body body) {
    in_parts(rows, a_part(length), [&](long long begin, long long end, long long) {
        for (long long r = begin; r < end; ++r) body(Row<F>{r, length});
    });
}

template <typename F, typename Body>
inline void for_each_lane(long long rows, long long length, Body body) {
    for_each_row<F>(rows, length, body);
}

template <typename F, typename Value, typename Combine, typename Each, typename Last>
inline void reduce_rows(long long rows, long long length, Value neutral, Combine combine,
                        Each each, Value*, unsigned*, Last last) {
    const long long step = a_part(length), count = parts_of(rows, step);
    const Room<Value> found(count);
    in_parts(rows, step, [&](long long begin, long long end, long long part) {
        Value value = neutral;
        for (long long r = begin; r < end; ++r) value = combine(value, each(Row<F>{r, length}));
        found.data[part] = value;
    });
    Value value = neutral;
    for (long long part = 0; part < count; ++part) value = combine(value, found.data[part]);
    last(value);
}

template <typename F, typename Element, typename Store>
inline void sum_columns(long long outer, long long length, long long inner, Element element,
                        Store store) {
    constexpr long long width = 256;
    const long long blocks = parts_of(inner, width);
    in_parts(outer * blocks, a_part(length * least(width, inner)),
             [&](long long begin, long long end, long long) {
        for (long long block = begin; block < end; ++block) {
            const long long a = block / blocks, first = block % blocks * width;
            const long long count = least(width, inner - first);
            F sum[width] = {};
            for (long long b = 0; b < length; ++b) {
                GRADHOOK_EACH
                for (long long c = 0; c < count; ++c) sum[c] += element(a, b, first + c);
            }
            for (long long c = 0; c < count; ++c) store(a, first + c, sum[c]);
        }
    });
}

template <typename F, typename Sum, typename Each, typename OfRow, typename Element,
          typename Store>
inline void rows_and_columns(long long rows, long long n, int, Each each, OfRow of_row,
                             Element element, Store store) {
    // every part sums its rows; 64 parts at most, so that their sums are few
    const long long step = most(a_part(n), parts_of(rows, 64));
    const long long count = parts_of(rows, step);
    const Room<Sum> sums(count * n);
    in_parts(rows, step, [&](long long begin, long long end, long long part) {
        Sum* of = sums.data + part * n;
        for (long long c = 0; c < n; ++c) of[c] = Sum{};
        for (long long r = begin; r < end; ++r) {
            const Row<F> row{r, n};
            each(row);
            const auto moments = of_row(row);
            GRADHOOK_EACH
            for (long long c = 0; c < n; ++c) of[c] += element(row, moments, c);
        }
    });
    for (long long c = 0; c < n; ++c) {
        Sum sum{};
        for (long long part = 0; part < count; ++part) sum += sums.data[part * n + c];
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
        for_each_element(table.size[t], [&table, &body, t](long long i) { body(t, i); });
}

template <typename F, typename Table, typename Element, typename Store>
inline void sum_of_tensors(const Table& table, long long chunk, Element element, Store store) {
    (void)chunk;
    F sum = 0;
    for (int t = 0; t < table.count; ++t)
        sum += Row<F>{0, table.size[t]}.reduce(
            [](F a, F b) { return a + b; }, F(0), [&](long long i) { return element(t, i); });
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

extern "C" __attribute__((visibility("default"))) void gradhook_use(
    void (*given)(gradhook::Task, void*, long long)) {
    gradhook::run = given;
}
