// Steps of optimizers over a table of tensors: all parameters of a dtype in one launch.
// A table goes by value, within CUDA's 4 KB of arguments, so no pointer is copied to the device.
// The formulas they must equal: `move` in the files of gradhook/optim, nn/utils/clip_grad.py.

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

// A step that treats every element alike: move(p, g, s) gives the new parameter from the parameter,
// its gradient and its state s, which it changes. n.keep is what is left of the parameter before,
// n.decay of it joins the gradient.
template <int arrays, typename T, typename F, typename Table, typename Step, typename Move>
__device__ __forceinline__ void elementwise(
    const Table& table, int t, long long i, const Step& n, Move move) {
    F p = static_cast<F>(table.template at<T>(0, t, i));
    F g = static_cast<F>(table.template at<T>(1, t, i));
    F s[arrays > 2 ? arrays - 2 : 1];
    for (int k = 0; k < arrays - 2; ++k) s[k] = static_cast<F>(table.template at<T>(2 + k, t, i));
    if (n.maximize) g = -g;
    if (n.decay != F(0)) g = g + p * n.decay;
    p = move(p * n.keep, g, s);
    for (int k = 0; k < arrays - 2; ++k) table.template at<T>(2 + k, t, i) = static_cast<T>(s[k]);
    table.template at<T>(0, t, i) = static_cast<T>(p);
}

// The larger one; NaN if either is.
template <typename F>
__device__ __forceinline__ F larger(F a, F b) {
    return a > b || a != a ? a : b;
}

template <typename F>
__device__ __forceinline__ F sign(F x) {
    return x > F(0) ? F(1) : x < F(0) ? F(-1) : x;
}

// State: the buffer with momentum, which holds nothing where it starts.
template <int states, typename F, typename Step>
__device__ __forceinline__ F sgd(F p, F g, F* s, const Step& n) {
    if (states > 0) {
        s[0] = n.starts ? g : s[0] * n.momentum + g * n.share;
        g = n.nesterov ? g + s[0] * n.momentum : s[0];
    }
    return p - g * n.rate;
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F adam(F p, F g, F* s, const Step& n) {
    s[0] = s[0] + (g - s[0]) * n.share1;
    s[1] = s[1] * n.beta2 + g * g * n.share2;
    if (n.amsgrad) s[states - 1] = larger(s[1], s[states - 1]);
    return p - s[0] / (sqrt(s[states - 1]) + n.eps) * n.rate;
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F nadam(F p, F g, F* s, const Step& n) {
    s[0] = s[0] + (g - s[0]) * n.share1;
    s[1] = s[1] * n.beta2 + g * g * n.share2;
    return p - (g * n.grad_rate + s[0] * n.mean_rate) / (sqrt(s[1] / n.unbias) + n.eps);
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F radam(F p, F g, F* s, const Step& n) {
    s[0] = s[0] + (g - s[0]) * n.share1;
    s[1] = s[1] * n.beta2 + g * g * n.share2;
    return p - s[0] / (n.rectified ? sqrt(s[1]) + n.eps : F(1)) * n.rate;
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F adamax(F p, F g, F* s, const Step& n) {
    s[0] = s[0] + (g - s[0]) * n.share1;
    s[1] = larger(s[1] * n.beta2, (g < F(0) ? -g : g) + n.eps);
    return p - s[0] / s[1] * n.rate;
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F adagrad(F p, F g, F* s, const Step& n) {
    s[0] = s[0] + g * g;
    return p - g / (sqrt(s[0]) + n.eps) * n.rate;
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F adadelta(F p, F g, F* s, const Step& n) {
    s[0] = s[0] * n.rho + g * g * n.share;
    const F d = sqrt(s[1] + n.eps) / sqrt(s[0] + n.eps) * g;
    s[1] = s[1] * n.rho + d * d * n.share;
    return p - d * n.rate;
}

// State: the mean square, the buffer with momentum, and the mean where it is centred.
template <int states, typename F, typename Step>
__device__ __forceinline__ F rmsprop(F p, F g, F* s, const Step& n) {
    s[0] = s[0] * n.alpha + g * g * n.share;
    F square = s[0];
    if (n.centered) {
        F& mean = s[states - 1];
        mean = mean + (g - mean) * n.share;
        square = square - mean * mean;
    }
    F d = g / (sqrt(square) + n.eps);
    if (n.momentum > F(0)) d = s[states > 1 ? 1 : 0] = s[states > 1 ? 1 : 0] * n.momentum + d;
    return p - d * n.rate;
}

// State: the gradient before, and the step size.
template <int states, typename F, typename Step>
__device__ __forceinline__ F rprop(F p, F g, F* s, const Step& n) {
    const F turn = g * s[0];
    const F size = s[1] * (turn > F(0) ? n.grow : turn < F(0) ? n.shrink : turn + F(1));
    s[0] = turn < F(0) ? F(0) : g;
    s[1] = size < n.least ? n.least : size > n.most ? n.most : size;
    return p - sign(s[0]) * s[1];
}

template <int states, typename F, typename Step>
__device__ __forceinline__ F asgd(F p, F g, F* s, const Step& n) {
    p = p - g * n.rate;
    s[0] = n.mu == F(1) ? p : s[0] + (p - s[0]) * n.mu;
    return p;
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
