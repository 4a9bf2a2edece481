// Statistics of rows that lie anyhow in a contiguous array: normalisation by batch, group or
// instance, running statistics, variance and standard deviation, and their gradients.
// The formulas they must equal: gradhook/ops/nn_norm.py, spread.py. Needs rows.cu.

namespace gradhook {

// Where element i of row r lies: r / across * far + r % across * near + i / run * jump + i % run.
struct Layout {
    unsigned across, far, near, run, jump;
    __device__ __forceinline__ unsigned place(long long r, long long i) const {
        const unsigned row = static_cast<unsigned>(r), at = static_cast<unsigned>(i);
        return row / across * far + row % across * near + at / run * jump + at % run;
    }
};

template <typename T>
struct Laid {
    T* data;
    Layout layout;
    __device__ __forceinline__ auto at(long long r, long long i) const {
        return data[layout.place(r, i)];
    }
    template <typename F>
    __device__ __forceinline__ void put(long long r, long long i, F value) const {
        data[layout.place(r, i)] = static_cast<T>(value);
    }
};

// A number for each channel: `inner` neighbours have one, and after `period` numbers comes the
// first again.
template <typename T>
struct PerChannel {
    const T* data;  // may be null: ones
    Layout layout;
    unsigned inner, period;
    __device__ __forceinline__ T at(long long r, long long i) const {
        return data ? data[layout.place(r, i) / inner % period] : static_cast<T>(1.0f);
    }
};

template <typename F>
struct Pair {
    F first, second;
};

struct AddPairs {
    template <typename F>
    __device__ __forceinline__ Pair<F> operator()(Pair<F> a, Pair<F> b) const {
        return Pair<F>{a.first + b.first, a.second + b.second};
    }
};

// The gradients for x, and for weight and bias summed over each run of `inner` elements of a row:
// one of the row's `length / inner` channels.
template <typename Row, typename G, typename X, typename W, typename Out, typename Sums>
__device__ __forceinline__ void norm_vjp(const Row& row, G g, X x, W weight,
                                         typename Row::Sum eps, Out out, long long inner,
                                         Sums by_weight, Sums by_bias) {
    using F = typename Row::Sum;
    const F centre = mean(row, x), scale = inverse_deviation(row, x, centre, eps);
    const auto y = [&](long long i) { return F((row.load(x, i) - centre) * scale); };
    const auto h = [&](long long i) { return F(row.load(g, i) * row.load(weight, i)); };
    const Pair<F> sums = row.reduce(AddPairs(), Pair<F>{F(0), F(0)}, [&](long long i) {
        const F at = h(i);
        return Pair<F>{at, at * y(i)};
    });
    const F mean_h = sums.first / F(row.length), mean_hy = sums.second / F(row.length);
    row.store(out, [&](long long i) { return (h(i) - mean_h - y(i) * mean_hy) * scale; });
    for (long long begin = 0; begin < row.length; begin += inner) {
        const Row part{row.number, inner};
        const Pair<F> of = part.reduce(AddPairs(), Pair<F>{F(0), F(0)}, [&](long long i) {
            const F at = row.load(g, begin + i);
            return Pair<F>{at * y(begin + i), at};
        });
        const Row one{row.number, 1};
        one.store(by_weight, [&](long long) { return of.first; });
        one.store(by_bias, [&](long long) { return of.second; });
        by_weight.data += 1;
        by_bias.data += 1;
    }
}

// new_mean, new_var: the running ones moved towards the row's mean and unbiased variance.
template <typename Row, typename X, typename Old, typename New>
__device__ __forceinline__ void running_moments(const Row& row, X x, Old old_mean, Old old_var,
                                                typename Row::Sum momentum, New new_mean,
                                                New new_var) {
    using F = typename Row::Sum;
    const F centre = mean(row, x);
    const F squares = row.reduce(Add(), F(0), [&](long long i) {
        const F distance = row.load(x, i) - centre;
        return F(distance * distance);
    });
    const F least = row.length > 1 ? F(row.length - 1) : F(1), kept = F(1) - momentum;
    const Row one{row.number, 1};
    one.store(new_mean, [&](long long) {
        return kept * row.load(old_mean, 0) + momentum * centre;
    });
    one.store(new_var, [&](long long) {
        return kept * row.load(old_var, 0) + momentum * (squares / least);
    });
}

// The mean squared distance from the mean over `divisor`, or its root.
template <typename Row, typename X, typename Out>
__device__ __forceinline__ void variance(const Row& row, X x, typename Row::Sum divisor, bool root,
                                         Out out) {
    using F = typename Row::Sum;
    const F centre = mean(row, x);
    const F squares = row.reduce(Add(), F(0), [&](long long i) {
        const F distance = row.load(x, i) - centre;
        return F(distance * distance);
    });
    const F found = squares / divisor;
    const Row one{row.number, 1};
    one.store(out, [&](long long) { return root ? sqrt(found) : found; });
}

// found: null, or the standard deviations, where the gradient is theirs: 0 at 0.
template <typename Row, typename G, typename X, typename Found, typename Out>
__device__ __forceinline__ void variance_vjp(const Row& row, G g, X x, Found found, bool root,
                                             typename Row::Sum factor, Out out) {
    using F = typename Row::Sum;
    const F centre = mean(row, x);
    F scale = row.load(g, 0) * factor;
    if (root) {
        const F deviation = row.load(found, 0);
        scale = deviation == F(0) ? F(0) : scale / (deviation * F(2));
    }
    row.store(out, [&](long long i) { return scale * (row.load(x, i) - centre); });
}

}  // namespace gradhook
