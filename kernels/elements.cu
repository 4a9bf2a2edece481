// Element functors: gelu, relu, their gradients, and dropout's mask from a counter-based generator.
// The formulas they must equal: gradhook/ops/activation.py (gelu, gelu_vjp, relu, relu_vjp).

namespace gradhook {

// The normal distribution's function and density; a target may have its own.
template <typename F>
__device__ __forceinline__ F normal(F x) {
    return (erf(x * F(0.7071067811865476)) + F(1)) * F(0.5);
}

template <typename F>
__device__ __forceinline__ F normal_density(F x) {
    return exp(x * x * F(-0.5)) * F(0.3989422804014327);
}

template <typename F>
__device__ __forceinline__ F gelu(F x) {
    return normal(x) * x;
}

template <typename F>
__device__ __forceinline__ F gelu_tanh(F x) {
    return (tanh((x + x * x * x * F(0.044715)) * F(0.7978845608028654)) + F(1)) * F(0.5) * x;
}

template <typename F>
__device__ __forceinline__ F gelu_vjp(F g, F x) {
    return g * (normal(x) + x * normal_density(x));
}

template <typename F>
__device__ __forceinline__ F gelu_tanh_vjp(F g, F x) {
    const F inner = tanh((x + x * x * x * F(0.044715)) * F(0.7978845608028654));
    const F slope = (F(1) - inner * inner) *
                    (x * x * F(0.10703222440890037) + F(0.7978845608028654));
    return g * ((inner + F(1)) * F(0.5) + x * slope * F(0.5));
}

template <typename F>
__device__ __forceinline__ F relu(F x) {
    return x <= F(0) ? F(0) : x;  // NaN stays
}

// y: what relu gave.
template <typename F>
__device__ __forceinline__ F relu_vjp(F g, F y) {
    return y <= F(0) ? F(0) : g;
}

struct Four {
    unsigned at[4];
};

// Philox-4x32-10: four random words of a 128-bit counter and a 64-bit key.
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
__device__ __forceinline__ Four philox(Four c, unsigned key0, unsigned key1) {
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * c.at[0], b = 0xCD9E8D57ull * c.at[2];
        c = Four{{static_cast<unsigned>(b >> 32) ^ c.at[1] ^ key0, static_cast<unsigned>(b),
                  static_cast<unsigned>(a >> 32) ^ c.at[3] ^ key1, static_cast<unsigned>(a)}};
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// Element i of a stream: a number in [0, 1) with 24 random bits. seed: the key; offset: the stream.
__device__ __forceinline__ float random_element(unsigned long long seed, unsigned long long offset,
                                                long long i) {
    const unsigned long long block = static_cast<unsigned long long>(i) / 4;
    const Four counter{{static_cast<unsigned>(block), static_cast<unsigned>(block >> 32),
                        static_cast<unsigned>(offset), static_cast<unsigned>(offset >> 32)}};
    const Four drawn =
        philox(counter, static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
    const unsigned word = i % 4 < 2 ? (i % 4 ? drawn.at[1] : drawn.at[0])
                                    : (i % 4 == 2 ? drawn.at[2] : drawn.at[3]);
    return static_cast<float>(word >> 8) * 5.9604644775390625e-8f;
}

// 0 with probability p, else 1 / (1 - p).
template <typename F>
__device__ __forceinline__ F dropout_factor(unsigned long long seed, unsigned long long offset,
                                            long long i, double p) {
    const bool kept = random_element(seed, offset, i) >= static_cast<float>(p);
    return kept ? F(1) / (F(1) - F(p)) : F(0);
}

}  // namespace gradhook
