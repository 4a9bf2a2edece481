// Row functors of losses of class indices: a row is the scores of one target.
// The formulas they must equal: gradhook/ops/nn_class_loss.py. Needs rows.cu.

namespace gradhook {

// Scores (batch, classes, inner), inner > 1: element i of row r, a row being one target of (batch,
// inner).
template <typename T>
struct Scores {
    T* data;
    long long classes, inner;
    __device__ __forceinline__ long long place(long long r, long long i) const {
        return (r / inner * classes + i) * inner + r % inner;
    }
    __device__ __forceinline__ auto at(long long r, long long i) const {
        return data[place(r, i)];
    }
    template <typename F>
    __device__ __forceinline__ void put(long long r, long long i, F value) const {
        data[place(r, i)] = static_cast<T>(value);
    }
};

// What decides the share of a target. weight: of each class, null for ones; ignored: the target
// that does not count; smoothing: of labels.
template <typename T, typename F>
struct Targets {
    const long long* data;
    Columns<T> weight;
    long long ignored;
    F smoothing;

    __device__ __forceinline__ F share(long long r, long long classes) const {
        const long long k = data[r];
        if (k == ignored) return F(0);
        return inside(k, classes) ? static_cast<F>(weight.at(0, k)) : F(0) / F(0);
    }
    // A target that is no class reads nothing; its loss is NaN.
    __device__ __forceinline__ static bool inside(long long k, long long classes) {
        return k >= 0 && k < classes;
    }
};

// The loss of targets, and the sum of their shares.
template <typename F>
struct Loss {
    F sum, count;
};

struct AddLosses {
    template <typename F>
    __device__ __forceinline__ Loss<F> operator()(Loss<F> a, Loss<F> b) const {
        return Loss<F>{a.sum + b.sum, a.count + b.count};
    }
};

// One target's loss where log(p(i)) = x(i) - top - logs, or x(i) alone with both 0.
template <typename Row, typename X, typename Target>
__device__ __forceinline__ Loss<typename Row::Sum> class_loss(const Row& row, X x,
                                                              const Target& target,
                                                              typename Row::Sum top,
                                                              typename Row::Sum logs) {
    using F = typename Row::Sum;
    const long long k = target.data[row.number];
    const F share = target.share(row.number, row.length);
    F sum = share;
    if (target.inside(k, row.length)) sum = share * (logs - (row.load(x, k) - top));
    if (target.smoothing != F(0)) {
        const F spread = row.reduce(Add(), F(0), [&](long long i) {
            return F(row.load(target.weight, i) * (logs - (row.load(x, i) - top)));
        });
        sum = (F(1) - target.smoothing) * sum + target.smoothing / F(row.length) * spread;
    }
    return Loss<F>{sum, share};
}

template <typename Row, typename X, typename Target>
__device__ __forceinline__ Loss<typename Row::Sum> nll_loss(const Row& row, X x,
                                                            const Target& target) {
    using F = typename Row::Sum;
    if (target.data[row.number] == target.ignored) return Loss<F>{F(0), F(0)};
    return class_loss(row, x, target, F(0), F(0));
}

template <typename Row, typename X, typename Target>
__device__ __forceinline__ Loss<typename Row::Sum> cross_entropy(const Row& row, X x,
                                                                 const Target& target) {
    using F = typename Row::Sum;
    if (target.data[row.number] == target.ignored) return Loss<F>{F(0), F(0)};
    const F top = largest(row, x);
    const F total = row.reduce(
        Add(), F(0), [&](long long i) { return F(exp(row.load(x, i) - top)); });
    return class_loss(row, x, target, top, F(log(total)));
}

// The sum of all shares, by one row's workers.
template <typename Row, typename Target>
__device__ __forceinline__ typename Row::Sum all_shares(const Row&, const Target& target,
                                                        long long rows, long long classes) {
    using F = typename Row::Sum;
    const Row all{0, rows};
    return all.reduce(
        Add(), F(0), [&](long long r) { return target.share(r, classes); });
}

// g: the gradient of this target's loss.
template <typename Row, typename Target, typename Out>
__device__ __forceinline__ void nll_loss_input(const Row& row, typename Row::Sum g,
                                               const Target& target, Out out) {
    using F = typename Row::Sum;
    const long long k = target.data[row.number];
    if (k == target.ignored) {
        row.store(out, [&](long long) { return F(0); });
        return;
    }
    const F own = g * target.share(row.number, row.length) * (F(1) - target.smoothing);
    const F even_share = target.smoothing / F(row.length);
    const F spread = even_share == F(0) ? F(0) : g * even_share;  // g may be infinite
    const bool inside = target.inside(k, row.length);
    row.store(out, [&](long long i) {
        const F even =
            target.smoothing == F(0) ? F(0) : spread * row.load(target.weight, i);
        return F(0) - (i == k || !inside ? own + even : even);
    });
}

template <typename Row, typename X, typename Target, typename Out>
__device__ __forceinline__ void cross_entropy_input(const Row& row, typename Row::Sum g, X x,
                                                    const Target& target, Out out) {
    using F = typename Row::Sum;
    const long long k = target.data[row.number];
    if (k == target.ignored) {
        row.store(out, [&](long long) { return F(0); });
        return;
    }
    const F top = largest(row, x);
    const auto power = [&](long long i) { return F(exp(row.load(x, i) - top)); };
    const F own = g * target.share(row.number, row.length) * (F(1) - target.smoothing);
    const F spread = g * target.smoothing / F(row.length);
    if (target.smoothing == F(0)) {
        store_shares(row, out, power, [&](long long i, F of, F total) {
            const F p = own / total * of;
            return i == k ? p - own : p;
        });
        return;
    }
    const F total = row.reduce(Add(), F(0), power);
    F all = F(row.length);
    if (target.weight.data)
        all = row.reduce(
            Add(), F(0), [&](long long i) { return row.load(target.weight, i); });
    const F factor = (own + spread * all) / total;
    row.store(out, [&](long long i) {
        const F p = factor * power(i);
        return (i == k ? p - own : p) - spread * row.load(target.weight, i);
    });
}

}  // namespace gradhook
