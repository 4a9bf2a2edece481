// How far the functions of kernels/math_cpu.h are from the true values: the C library's in a wider
// type. Built behind math_cpu.h by test_native_math.py with the flags of native kernels.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

constexpr int block = 1024;

// The worst distance, in units in the last place of T, and where; the first place where a NaN, an
// infinity or the sign of a zero is wrong.
template <typename T>
struct Worst {
    double ulp = 0;
    T where = 0;
    long long wrong = 0;
    T wrong_at = 0;
};

template <typename T, typename Wide>
void compare(T x, T found, Wide truth, Worst<T>& worst) {
    using limits = std::numeric_limits<T>;
    const T rounded = static_cast<T>(truth);
    const bool wrong = std::isnan(found) != std::isnan(rounded) ||
                       (rounded == 0 && found == 0 && std::signbit(found) != std::signbit(rounded));
    if (wrong && !worst.wrong++) worst.wrong_at = x;
    if (wrong || std::isnan(rounded) || found == rounded) return;
    // infinity lies one step behind the largest number
    const auto value = [](T y) {
        return std::isinf(y) ? std::copysign(std::ldexp(Wide(1), limits::max_exponent), Wide(y))
                             : Wide(y);
    };
    const Wide to = std::isinf(rounded) ? value(rounded) : truth;
    const int exponent = std::fmin(std::fmax(std::ilogb(to), limits::min_exponent - 1),
                                   limits::max_exponent - 1);
    const double ulp = static_cast<double>(
        std::fabs(value(found) - to) / std::ldexp(Wide(1), exponent - limits::digits + 1));
    if (ulp > worst.ulp) {
        worst.ulp = ulp;
        worst.where = x;
    }
}

template <typename T, typename Wide, typename Function, typename Bits>
void go_over(long long count, Bits bits, Function function, Wide (*truth)(Wide), double* out) {
    Worst<T> worst;
    T x[block], y[block];
    for (long long start = 0; start < count; start += block) {
        const int n = static_cast<int>(count - start < block ? count - start : block);
        for (int i = 0; i < n; ++i) {
            const auto word = bits(start + i);
            std::memcpy(&x[i], &word, sizeof(T));
        }
#pragma GCC ivdep
        for (int i = 0; i < n; ++i) y[i] = function(x[i]);
        for (int i = 0; i < n; ++i) compare<T, Wide>(x[i], y[i], truth(x[i]), worst);
    }
    out[0] = worst.ulp;
    out[1] = worst.where;
    out[2] = static_cast<double>(worst.wrong);
    out[3] = worst.wrong_at;
}

uint64_t mixed(uint64_t k) {  // splitmix64
    k = (k + 1) * 0x9e3779b97f4a7c15u;
    k = (k ^ (k >> 30)) * 0xbf58476d1ce4e5b9u;
    k = (k ^ (k >> 27)) * 0x94d049bb133111ebu;
    return k ^ (k >> 31);
}

double normal_truth(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
double density_truth(double x) { return std::exp(-0.5 * x * x) * 0.39894228040143267794; }

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))
// All float bit patterns that are multiples of `step`; so many doubles of random bits, half of them
// from 2^-12 to 2^12; the words given.
#define FLOATS(name)                                                                    \
    EXPORTED void floats_##name(long long step, double* out) {                          \
        go_over<float, double>(                                                         \
            0xffffffffLL / step + 1,                                                    \
            [step](long long k) { return static_cast<uint32_t>(k * step); },            \
            [](float x) { return gradhook::name(x); }, std::name, out);                 \
    }                                                                                   \
    EXPORTED void given_floats_##name(const uint32_t* words, long long n, double* out) { \
        go_over<float, double>(                                                         \
            n, [words](long long k) { return words[k]; },                               \
            [](float x) { return gradhook::name(x); }, std::name, out);                 \
    }
#define DOUBLES(name)                                                                    \
    EXPORTED void doubles_##name(long long count, double* out) {                         \
        go_over<double, long double>(                                                    \
            count,                                                                       \
            [](long long k) {                                                            \
                const uint64_t word = mixed(static_cast<uint64_t>(k));                   \
                const uint64_t near = (word & 0x800fffffffffffffu) |                     \
                                      ((1011 + (word >> 52 & 0x7ff) % 24) << 52);        \
                return k % 2 ? word : near;                                              \
            },                                                                           \
            [](double x) { return gradhook::name(x); },                                  \
            [](long double x) -> long double { return std::name(x); }, out);             \
    }                                                                                    \
    EXPORTED void given_doubles_##name(const uint64_t* words, long long n, double* out) { \
        go_over<double, long double>(                                                    \
            n, [words](long long k) { return words[k]; },                                \
            [](double x) { return gradhook::name(x); },                                  \
            [](long double x) -> long double { return std::name(x); }, out);             \
    }
#define BOTH(name) FLOATS(name) DOUBLES(name)
BOTH(exp)
BOTH(expm1)
BOTH(log)
BOTH(log1p)
BOTH(tanh)
BOTH(erf)

// y[i] = name(x[i]), as a kernel's loop is compiled.
#define LOOP(name)                                                           \
    EXPORTED void loop_##name(const float* x, float* y, long long n) {       \
        for (long long i = 0; i < n; ++i) y[i] = gradhook::name(x[i]);       \
    }
LOOP(normal)
LOOP(normal_density)

// The largest |found - truth| over the bit patterns; NaN where one is not.
#define DISTANCE(name, truth)                                                  \
    EXPORTED double distance_##name(long long step) {                          \
        double worst = 0;                                                      \
        float x[block], y[block];                                              \
        for (long long at = 0; at <= 0xffffffffLL;) {                          \
            int n = 0;                                                         \
            for (; n < block && at <= 0xffffffffLL; ++n, at += step)           \
                x[n] = gradhook::float_of(static_cast<int32_t>(at));           \
            loop_##name(x, y, n);                                              \
            for (int i = 0; i < n; ++i) {                                      \
                if (std::isnan(x[i]) != std::isnan(y[i])) return NAN;          \
                const double distance = std::fabs(y[i] - truth(x[i]));         \
                if (distance > worst) worst = distance;                        \
            }                                                                  \
        }                                                                      \
        return worst;                                                          \
    }
DISTANCE(normal, normal_truth)
DISTANCE(normal_density, density_truth)
