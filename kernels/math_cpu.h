// exp, expm1, log, log1p, tanh and erf that a compiler turns into vector code. float: by
// polynomials (fits of our own, without a branch, at most 2 ulp from the true value). double: by
// the vector functions of the C library where it has them (x86, glibc 2.35: at most 4 ulp), else
// one by one. tests/test_native_math.py holds these bounds.
// Infinities, NaN and denormal numbers as in <cmath>; no flag of the process is changed.
#pragma once
#include <stdint.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 35)
#define GRADHOOK_VECTOR __attribute__((__simd__("notinbranch")))
#else
#define GRADHOOK_VECTOR
#endif
extern "C" {
GRADHOOK_VECTOR double gradhook_exp(double) __asm__("exp");
GRADHOOK_VECTOR double gradhook_log(double) __asm__("log");
GRADHOOK_VECTOR double gradhook_log1p(double) __asm__("log1p");
GRADHOOK_VECTOR double gradhook_tanh(double) __asm__("tanh");
GRADHOOK_VECTOR double gradhook_erf(double) __asm__("erf");
GRADHOOK_VECTOR double gradhook_expm1(double) __asm__("expm1");
}

namespace gradhook {

inline int32_t bits_of(float x) {
    int32_t bits;
    __builtin_memcpy(&bits, &x, 4);
    return bits;
}

inline float float_of(int32_t bits) {
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}

inline float fabs(float x) { return __builtin_fabsf(x); }
inline double fabs(double x) { return __builtin_fabs(x); }
inline float sqrt(float x) { return __builtin_sqrtf(x); }
inline double sqrt(double x) { return __builtin_sqrt(x); }
inline int ilogb(float x) { return __builtin_ilogbf(x); }
inline int ilogb(double x) { return __builtin_ilogb(x); }
template <typename F>
inline bool isnan(F x) { return x != x; }
template <typename F>
inline bool isinf(F x) { return fabs(x) == F(__builtin_inff()); }

// x = n log(2) + r: 2^n and 1 + r + r^2 P(r).
struct Powers {
    float of_r_less_1;
    int32_t n;
};

inline Powers powers(float x) {
    constexpr float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    const float moved = x * 1.44269504f + shift;
    const float n = moved - shift;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 0.0013950602f;
    p = p * r + 0.008368953f;
    p = p * r + 0.041666206f;
    p = p * r + 0.16666518f;
    p = p * r + 0.5f;
    return Powers{p * (r * r) + r, bits_of(moved) - bits_of(shift)};
}

inline float exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const Powers found = powers(x);
    const int32_t half = found.n >> 1;  // two factors: the result may be denormal
    return (found.of_r_less_1 + 1.0f) * float_of((half + 127) << 23) *
           float_of((found.n - half + 127) << 23);
}

// exp(x) for x <= 0, and 0 below -87.
inline float exp_of_negative(float x) {
    const Powers found = powers(x < -87.0f ? -87.0f : x);
    return x < -87.0f ? 0.0f : (found.of_r_less_1 + 1.0f) * float_of((found.n + 127) << 23);
}

// 2^n (1 + q) - 1 without cancelling.
inline float expm1(float x) {
    const Powers found = powers(x > 88.0f ? 88.0f : x < -87.0f ? -87.0f : x);
    const float scale = float_of((found.n + 127) << 23);
    const float y = scale * found.of_r_less_1 + (scale - 1.0f);
    return x == 0.0f ? x : x > 88.0f ? exp(x) : y;
}

// x = 2^n (1 + f), 1 + f from sqrt(1/2) to sqrt(2): n log(2) + f - f^2 / 2 + f^3 P(f).
inline float log(float x) {
    const bool tiny = x < 1.17549435e-38f;
    const float scaled = tiny ? x * 8388608.0f : x;
    const int32_t bits = bits_of(scaled);
    const int32_t whole = (bits - 0x3f3504f3) >> 23;
    const float f = float_of(bits - (whole << 23)) - 1.0f;
    const float n = static_cast<float>(whole) - (tiny ? 23.0f : 0.0f);
    float p = 0.06915425f;
    p = p * f + -0.11789834f;
    p = p * f + 0.11872966f;
    p = p * f + -0.12384343f;
    p = p * f + 0.14218658f;
    p = p * f + -0.16669251f;
    p = p * f + 0.20002227f;
    p = p * f + -0.24999987f;
    p = p * f + 0.3333331f;
    const float square = f * f;
    float y = p * f * square + n * -2.12194440e-4f - 0.5f * square;
    y = y + f + n * 0.693359375f;
    y = x > 3.40282347e38f ? x : y;
    y = x == 0.0f ? -__builtin_inff() : y;
    return x < 0.0f || x != x ? __builtin_nanf("") : y;
}

inline float log1p(float x) {
    const float u = 1.0f + x;
    const float y = log(u) + (x - (u - 1.0f)) / u;  // what u lost
    return u == 1.0f || u > 3.40282347e38f ? x : u == 0.0f ? -__builtin_inff() : y;
}

inline float tanh(float x) {
    const float a = fabs(x), s = x * x;
    float p = -0.005905868f;
    p = p * s + 0.020805385f;
    p = p * s + -0.053786684f;
    p = p * s + 0.13331959f;
    p = p * s + -0.33333299f;
    const float near = x + x * (s * p);
    const float power = exp_of_negative(-a - a);
    const float far = (1.0f - power) / (1.0f + power);
    return x != x ? x : __builtin_copysignf(a < 0.6f ? near : far, x);
}

// x P(x^2) near 0; 1 - exp(Q(|x|)) beyond, Q being log(erfc).
inline float erf(float x) {
    const float s = x * x;
    float p = 8.2154264e-5f;
    p = p * s + -0.00081059657f;
    p = p * s + 0.0051977974f;
    p = p * s + -0.026858104f;
    p = p * s + 0.11283673f;
    p = p * s + -0.37612632f;
    const float near = x + x * (p * s + 0.128379167f);
    const float a = fabs(x) > 4.0f ? 4.0f : fabs(x);
    float q = 1.9150414e-4f;
    q = q * a + -0.0029995407f;
    q = q * a + 0.022051997f;
    q = q * a + -0.10356689f;
    q = q * a + -0.63760006f;
    q = q * a + -1.127426f;
    q = q * a + -2.5644567e-4f;
    return x != x ? x : __builtin_copysignf(s < 0.9025f ? near : 1.0f - exp_of_negative(q), x);
}

// The normal distribution function to 1e-7: exp(S(t) - t^2 / 2) is its tail at t = |x|.
inline float normal(float x) {
    const float a = fabs(x), t = a > 5.7f ? 5.7f : a;
    float s = -1.9650097e-6f;
    s = s * t + 2.7294511e-5f;
    s = s * t + -1.290502e-4f;
    s = s * t + -9.4917305e-5f;
    s = s * t + 4.89599e-3f;
    s = s * t + -0.036387578f;
    s = s * t + 0.18170113f;
    s = s * t + -0.79788533f;
    s = s * t + -0.69314718f;
    const float tail = exp_of_negative(s - x * x * 0.5f);
    return x > 0.0f ? 1.0f - tail : tail;
}

inline float normal_density(float x) {
    return exp_of_negative(x * x * -0.5f) * 0.3989422804f;
}

inline double expm1(double x) { return gradhook_expm1(x); }
inline double exp(double x) { return gradhook_exp(x); }
inline double log(double x) { return gradhook_log(x); }
inline double log1p(double x) { return gradhook_log1p(x); }
inline double tanh(double x) { return gradhook_tanh(x); }
inline double erf(double x) { return gradhook_erf(x); }

}  // namespace gradhook
