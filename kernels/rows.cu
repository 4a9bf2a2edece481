// Row functors: softmax, log_softmax, layer_norm, their gradients, and sums over axes.
// A functor sees only row.load, row.store and row.reduce; sums are made in Row::Sum (float for
// 16-bit floats). The formulas they must equal: gradhook/ops/activation.py, nn_norm.py.

namespace gradhook {

// What a row reads and writes. Rows: element i of row r; Columns: the same element for each row.
template <typename T>
struct Rows {
    T* data;
    long long length;
    __device__ __forceinline__ T at(long long r, long long i) const {
        return data[r * length + i];
    }
    template <typename F>
    __device__ __forceinline__ void put(long long r, long long i, F value) const {
        data[r * length + i] = static_cast<T>(value);
    }
};

template <typename T>
struct Columns {
    const T* data;  // may be null: ones
    __device__ __forceinline__ T at(long long, long long i) const {
        return data ? data[i] : static_cast<T>(1.0f);
    }
};

struct Add {
    template <typename F>
    __device__ __forceinline__ F operator()(F a, F b) const { return a + b; }
};

struct Larger {
    template <typename F>
    __device__ __forceinline__ F operator()(F a, F b) const { return a < b ? b : a; }
};

template <typename Row, typename X>
__device__ __forceinline__ typename Row::Sum largest(const Row& row, X x) {
    using F = typename Row::Sum;
    return row.reduce(Larger(), F(-1) / F(0), [&](long long i) { return row.load(x, i); });
}

// out(i) = last(i, element(i), total), total being the sum of all element(i). A target may keep the
// elements in `out` instead of computing them twice.
template <typename Row, typename Out, typename Element, typename Last>
__device__ __forceinline__ void store_shares(const Row& row, Out out, Element element, Last last) {
    using F = typename Row::Sum;
    const F total = row.reduce(Add(), F(0), element);
    row.store(out, [&](long long i) { return last(i, element(i), total); });
}

template <typename Row, typename X, typename Out>
__device__ __forceinline__ void softmax(const Row& row, X x, Out out) {
    using F = typename Row::Sum;
    const F top = largest(row, x);
    store_shares(
        row, out, [&](long long i) { return F(exp(row.load(x, i) - top)); },
        [](long long, F power, F total) { return power / total; });
}

template <typename Row, typename X, typename Out>
__device__ __forceinline__ void log_softmax(const Row& row, X x, Out out) {
    using F = typename Row::Sum;
    const F top = largest(row, x);
    const F total = row.reduce(
        Add(), F(0), [&](long long i) { return F(exp(row.load(x, i) - top)); });
    const F shift = log(total);
    row.store(out, [&](long long i) { return row.load(x, i) - top - shift; });
}

// y: the softmax. out * (g - sum(g * out))
template <typename Row, typename G, typename Y, typename Out>
__device__ __forceinline__ void softmax_vjp(const Row& row, G g, Y y, Out out) {
    using F = typename Row::Sum;
    const F total = row.reduce(
        Add(), F(0), [&](long long i) { return F(row.load(g, i) * row.load(y, i)); });
    row.store(out, [&](long long i) { return row.load(y, i) * (row.load(g, i) - total); });
}

// y: the log_softmax. g - exp(out) * sum(g)
template <typename Row, typename G, typename Y, typename Out>
__device__ __forceinline__ void log_softmax_vjp(const Row& row, G g, Y y, Out out) {
    using F = typename Row::Sum;
    const F total = row.reduce(Add(), F(0), [&](long long i) { return row.load(g, i); });
    row.store(out, [&](long long i) { return row.load(g, i) - exp(row.load(y, i)) * total; });
}

template <typename Row, typename X>
__device__ __forceinline__ typename Row::Sum mean(const Row& row, X x) {
    using F = typename Row::Sum;
    return row.reduce(Add(), F(0), [&](long long i) { return row.load(x, i); }) / F(row.length);
}

template <typename Row, typename X>
__device__ __forceinline__ typename Row::Sum inverse_deviation(
    const Row& row, X x, typename Row::Sum centre, typename Row::Sum eps) {
    using F = typename Row::Sum;
    const F squares = row.reduce(Add(), F(0), [&](long long i) {
        const F distance = row.load(x, i) - centre;
        return F(distance * distance);
    });
    return F(1) / sqrt(squares / F(row.length) + eps);
}

template <typename Row, typename X, typename W, typename B, typename Out>
__device__ __forceinline__ void layer_norm(const Row& row, X x, W weight, B bias, bool has_bias,
                                           typename Row::Sum eps, Out out) {
    using F = typename Row::Sum;
    const F centre = mean(row, x), scale = inverse_deviation(row, x, centre, eps);
    row.store(out, [&](long long i) {
        const F y = (row.load(x, i) - centre) * scale * row.load(weight, i);
        return has_bias ? y + row.load(bias, i) : y;
    });
}

// The gradients for x and, before its sum over rows, for the weight.
template <typename Row, typename G, typename X, typename W, typename Out, typename OutW>
__device__ __forceinline__ void layer_norm_vjp(const Row& row, G g, X x, W weight,
                                               typename Row::Sum eps, Out out, OutW out_weight) {
    using F = typename Row::Sum;
    const F centre = mean(row, x), scale = inverse_deviation(row, x, centre, eps);
    const auto y = [&](long long i) { return F((row.load(x, i) - centre) * scale); };
    const auto h = [&](long long i) { return F(row.load(g, i) * row.load(weight, i)); };
    const F mean_h = row.reduce(Add(), F(0), h) / F(row.length);
    const F mean_hy =
        row.reduce(Add(), F(0), [&](long long i) { return F(h(i) * y(i)); }) / F(row.length);
    row.store(out, [&](long long i) { return (h(i) - mean_h - y(i) * mean_hy) * scale; });
    row.store(out_weight, [&](long long i) { return row.load(g, i) * y(i); });
}

// The gradient for x.
template <typename Row, typename G, typename X, typename W, typename Out>
__device__ __forceinline__ void layer_norm_x_vjp(const Row& row, G g, X x, W weight,
                                                 typename Row::Sum eps, Out out) {
    using F = typename Row::Sum;
    const F centre = mean(row, x), scale = inverse_deviation(row, x, centre, eps);
    const auto y = [&](long long i) { return F((row.load(x, i) - centre) * scale); };
    const auto h = [&](long long i) { return F(row.load(g, i) * row.load(weight, i)); };
    const F mean_h = row.reduce(Add(), F(0), h) / F(row.length);
    const F mean_hy =
        row.reduce(Add(), F(0), [&](long long i) { return F(h(i) * y(i)); }) / F(row.length);
    row.store(out, [&](long long i) { return (h(i) - mean_h - y(i) * mean_hy) * scale; });
}

template <typename F>
struct Moments {
    F centre, scale;
};

template <typename F>
struct ByColumn {
    F weight, bias;
    __device__ __forceinline__ void operator+=(const ByColumn& other) {
        weight += other.weight;
        bias += other.bias;
    }
};

// All gradients in one launch: for x by rows, for weight and bias by columns.
template <typename F, typename G, typename X, typename W, typename Out, typename OutW,
          typename OutB>
__device__ __forceinline__ void layer_norm_vjp_all(long long rows, long long n, int row_blocks,
                                                   G g, X x, W weight, F eps, Out out,
                                                   OutW out_weight, OutB out_bias) {
    rows_and_columns<F, ByColumn<F>>(
        rows, n, row_blocks,
        [&](const auto& row) { layer_norm_x_vjp(row, g, x, weight, eps, out); },
        [&](const auto& row) {
            const F centre = mean(row, x);
            return Moments<F>{centre, inverse_deviation(row, x, centre, eps)};
        },
        [&](const auto& row, Moments<F> of, long long c) {
            const F at = row.load(g, c);
            return ByColumn<F>{at * ((row.load(x, c) - of.centre) * of.scale), at};
        },
        [&](long long c, ByColumn<F> sum) {
            out_weight.put(0, c, sum.weight);
            out_bias.put(0, c, sum.bias);
        });
}

// One sum a row: the trailing axes of a sum-to-shape.
template <typename Row, typename X, typename Out>
__device__ __forceinline__ void row_sum(const Row& row, X x, Out out) {
    using F = typename Row::Sum;
    const F total = row.reduce(Add(), F(0), [&](long long i) { return row.load(x, i); });
    const Row one{row.number, 1};
    one.store(out, [&](long long) { return total; });
}

}  // namespace gradhook
