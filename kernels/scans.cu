// Running sums, products and extrema along rows, and their gradients.
// The formulas they must equal: gradhook/ops/cumulative.py, order.py. Needs rows.cu and norms.cu.

namespace gradhook {

struct Multiply {
    template <typename F>
    __device__ __forceinline__ F operator()(F a, F b) const { return a * b; }
};

struct LogAddExp {
    template <typename F>
    __device__ __forceinline__ F operator()(F a, F b) const {
        const F top = a < b ? b : a, bottom = a < b ? a : b;
        return a == b ? a + F(0.6931471805599453) : top + log1p(exp(bottom - top));
    }
};

// The map s -> sum + factor * s; the second one is applied to the result of the first.
struct Compose {
    template <typename F>
    __device__ __forceinline__ Pair<F> operator()(Pair<F> a, Pair<F> b) const {
        return Pair<F>{b.first * a.first, b.first * a.second + b.second};
    }
};

template <typename F>
struct Found {
    F value;
    long long index;
};

// The last of the largest (smallest), and of the NaN where there are any.
template <int sign>
struct Extreme {
    template <typename F>
    __device__ __forceinline__ Found<F> operator()(Found<F> a, Found<F> b) const {
        const bool later = isnan(b.value) ||
                           (!isnan(a.value) && F(sign) * b.value >= F(sign) * a.value);
        return later ? b : a;
    }
};

template <typename Row, typename X, typename Out, typename Combine>
__device__ __forceinline__ void running(const Row& row, X x, Out out, bool from_end,
                                        Combine combine, typename Row::Sum neutral) {
    using F = typename Row::Sum;
    row.scan(from_end, combine, neutral, [&](long long i) { return F(row.load(x, i)); },
             [&](long long i, F value) { out.put(row.number, i, value); });
}

template <int sign, typename Row, typename X, typename Out, typename Index>
__device__ __forceinline__ void running_extreme(const Row& row, X x, Out out, Index index) {
    using F = typename Row::Sum;
    row.scan(false, Extreme<sign>(), Found<F>{F(-sign) / F(0), 0},
             [&](long long i) { return Found<F>{row.load(x, i), i}; },
             [&](long long i, Found<F> at) {
                 out.put(row.number, i, at.value);
                 index.put(row.number, i, at.index);
             });
}

// put(i, S(i)) with S(i) = g(i) + factor(i) * S(i + 1), 0 behind the last.
template <typename Row, typename G, typename Factor, typename Put>
__device__ __forceinline__ void recurrence(const Row& row, G g, Factor factor, Put put) {
    using F = typename Row::Sum;
    row.scan(true, Compose(), Pair<F>{F(1), F(0)},
             [&](long long i) {
                 return Pair<F>{i + 1 < row.length ? F(factor(i)) : F(0), row.load(g, i)};
             },
             [&](long long i, Pair<F> map) { put(i, map.second); });
}

// before: room for the products of the elements ahead.
template <typename Row, typename G, typename X, typename Before, typename Out>
__device__ __forceinline__ void cumprod_vjp(const Row& row, G g, X x, Before before, Out out) {
    using F = typename Row::Sum;
    row.scan(false, Multiply(), F(1),
             [&](long long i) { return i ? row.load(x, i - 1) : F(1); },
             [&](long long i, F value) { before.put(row.number, i, value); });
    recurrence(row, g, [&](long long i) { return row.load(x, i + 1); }, [&](long long i, F sum) {
        out.put(row.number, i, row.load(before, i) * sum);
    });
}

// y: the logcumsumexp.
template <typename Row, typename G, typename X, typename Out>
__device__ __forceinline__ void logcumsumexp_vjp(const Row& row, G g, X x, X y, Out out) {
    using F = typename Row::Sum;
    recurrence(
        row, g, [&](long long i) { return F(exp(row.load(y, i) - row.load(y, i + 1))); },
        [&](long long i, F sum) {
            out.put(row.number, i, exp(row.load(x, i) - row.load(y, i)) * sum);
        });
}

}  // namespace gradhook
