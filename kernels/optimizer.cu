// Steps of optimizers over a table of tensors: all parameters of a dtype in one launch.
// A table goes by value, within CUDA's 4 KB of arguments, so no pointer is copied to the device.
// The formulas they must equal: gradhook/optim/sgd.py and adam.py, nn/utils/clip_grad.py.

namespace gradhook {

// arrays: how many arrays a tensor has (parameter, gradient, ...); tensors: room for so many.
template <int arrays, int tensors>
struct TensorTable {
    void* data[arrays][tensors];
    long long size[tensors];
    int first_block[tensors];
    int count;
    int blocks;

    template <typename T>
    __device__ __forceinline__ T& at(int array, int tensor, long long i) const {
        return static_cast<T*>(data[array][tensor])[i];
    }
};

template <typename F>
struct SgdStep {
    F rate, decay, momentum, share;  // share: 1 - dampening, or 1 where the buffer starts
    int nesterov, maximize, has_buffer, starts;
};

template <typename T, typename F, typename Table>
__device__ __forceinline__ void sgd(const Table& table, int t, long long i, SgdStep<F> step) {
    const F p = static_cast<F>(table.template at<T>(0, t, i));
    F d = static_cast<F>(table.template at<T>(1, t, i));
    if (step.maximize) d = -d;
    if (step.decay != F(0)) d = p * step.decay + d;
    if (step.has_buffer) {
        T& place = table.template at<T>(2, t, i);
        const F b = step.starts ? d : static_cast<F>(place) * step.momentum + d * step.share;
        place = static_cast<T>(b);
        d = step.nesterov ? d + b * step.momentum : b;
    }
    table.template at<T>(0, t, i) = static_cast<T>(p - d * step.rate);
}

template <typename F>
struct AdamStep {
    F rate, keep, decay, beta1, beta2, eps;  // rate, eps: with the bias corrections; keep: of p
    int maximize, amsgrad;
};

template <typename T, typename F, typename Table>
__device__ __forceinline__ void adam(const Table& table, int t, long long i, AdamStep<F> step) {
    const F p = static_cast<F>(table.template at<T>(0, t, i));
    F g = static_cast<F>(table.template at<T>(1, t, i));
    if (step.maximize) g = -g;
    if (step.decay != F(0)) g = g + p * step.decay;
    F m = static_cast<F>(table.template at<T>(2, t, i));
    F v = static_cast<F>(table.template at<T>(3, t, i));
    m = m + (g - m) * (F(1) - step.beta1);
    v = v * step.beta2 + g * g * (F(1) - step.beta2);
    table.template at<T>(2, t, i) = static_cast<T>(m);
    table.template at<T>(3, t, i) = static_cast<T>(v);
    if (step.amsgrad) {
        T& place = table.template at<T>(4, t, i);
        const F top = static_cast<F>(place);
        v = v > top || v != v ? v : top;
        place = static_cast<T>(v);
    }
    table.template at<T>(0, t, i) =
        static_cast<T>(p * step.keep - m / (sqrt(v) + step.eps) * step.rate);
}

template <typename T, typename F, typename Table>
__device__ __forceinline__ F square(const Table& table, int t, long long i) {
    const F g = static_cast<F>(table.template at<T>(0, t, i));
    return g * g;
}

// min(1, limit / (norm + 1e-6)), norm being the root of the sum of squares.
template <typename F>
__device__ __forceinline__ F clip_factor(F squares, F limit) {
    const F factor = limit / (sqrt(squares) + F(1e-6));
    return factor > F(1) ? F(1) : factor;
}

}  // namespace gradhook
