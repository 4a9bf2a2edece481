// CUDA's built-in functions: barriers, warp exchanges, atomics, bit and math functions.
// One host thread runs all threads of a grid, so an atomic is a plain read and write.
#pragma once

static inline void __syncthreads() { cpudevice::wait(cpudevice::AT_BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { cpudevice::wait(cpudevice::AT_WARP); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}

namespace cpudevice {
struct alignas(16) Slot {
  char bytes[16];
};
static Slot exchanged[1024];
static int votes[1024];

// Each thread writes, the warp meets, each reads another's, the warp meets again.
template <class T>
static T shuffle(T value, int source, int width) {
  static_assert(sizeof(T) <= sizeof(Slot), "a shuffle moves at most 16 bytes");
  int me = current, warp = me & ~31, segment = (me & 31) & ~(width - 1);
  memcpy(&exchanged[me], &value, sizeof(T));
  wait(AT_WARP);
  if (source >= segment && source < segment + width && warp + source < (int)fibers.size())
    memcpy(&value, &exchanged[warp + source], sizeof(T));
  wait(AT_WARP);
  return value;
}
static inline int lane() { return current & 31; }

static inline int block_votes(int predicate) {
  votes[current] = !!predicate;
  wait(AT_BLOCK);
  int n = 0;
  for (size_t i = 0; i < fibers.size(); i++) n += votes[i];
  wait(AT_BLOCK);
  return n;
}
}  // namespace cpudevice

template <class T>
static T __shfl_sync(unsigned, T v, int source, int w = 32) {
  return cpudevice::shuffle(v, (cpudevice::lane() & ~(w - 1)) + (source & (w - 1)), w);
}
template <class T>
static T __shfl_down_sync(unsigned, T v, unsigned d, int w = 32) {
  return cpudevice::shuffle(v, cpudevice::lane() + (int)d, w);
}
template <class T>
static T __shfl_up_sync(unsigned, T v, unsigned d, int w = 32) {
  return cpudevice::shuffle(v, cpudevice::lane() - (int)d, w);
}
template <class T>
static T __shfl_xor_sync(unsigned, T v, int mask, int w = 32) {
  return cpudevice::shuffle(v, cpudevice::lane() ^ mask, w);
}
static inline unsigned __ballot_sync(unsigned, int predicate) {
  using namespace cpudevice;
  int warp = current & ~31;
  votes[current] = !!predicate;
  wait(AT_WARP);
  unsigned bits = 0;
  for (int i = 0; i < 32 && warp + i < (int)fibers.size(); i++)
    if (fibers[warp + i].wait != DONE && votes[warp + i]) bits |= 1u << i;
  wait(AT_WARP);
  return bits;
}
static inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
static inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, !p) == 0; }
static inline int __syncthreads_count(int p) { return cpudevice::block_votes(p); }
static inline int __syncthreads_or(int p) { return cpudevice::block_votes(p) != 0; }
static inline int __syncthreads_and(int p) { return cpudevice::block_votes(!p) == 0; }

// ---- atomics
template <class T, class U, class = std::enable_if_t<std::is_arithmetic<T>::value>>
static inline T atomicAdd(T *a, U v) {
  T old = *a;
  *a = old + (T)v;
  return old;
}
static inline __half atomicAdd(__half *a, __half v) {
  __half old = *a;
  *a = __float2half(__half2float(old) + __half2float(v));
  return old;
}
static inline __nv_bfloat16 atomicAdd(__nv_bfloat16 *a, __nv_bfloat16 v) {
  __nv_bfloat16 old = *a;
  *a = __float2bfloat16(__bfloat162float(old) + __bfloat162float(v));
  return old;
}
#define CPUDEVICE_ATOMIC(NAME, RESULT)            \
  template <class T>                              \
  static inline T NAME(T *a, std::common_type_t<T> v) { \
    T old = *a;                                   \
    *a = (RESULT);                                \
    return old;                                   \
  }
CPUDEVICE_ATOMIC(atomicExch, v)
CPUDEVICE_ATOMIC(atomicMax, old > v ? old : v)
CPUDEVICE_ATOMIC(atomicMin, old < v ? old : v)
CPUDEVICE_ATOMIC(atomicAnd, old &v)
CPUDEVICE_ATOMIC(atomicOr, old | v)
CPUDEVICE_ATOMIC(atomicXor, old ^ v)
CPUDEVICE_ATOMIC(atomicSub, old - v)
template <class T, class U, class W>
static inline T atomicCAS(T *a, U expected, W v) {
  T old = *a;
  if (old == (T)expected) *a = (T)v;
  return old;
}

// ---- bits
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
template <class T>
static inline T __ldg(const T *p) {
  return *p;
}
#define CPUDEVICE_BITS(NAME, A, B)  \
  static inline B NAME(A a) {       \
    B b;                            \
    memcpy(&b, &a, sizeof b);       \
    return b;                       \
  }
CPUDEVICE_BITS(__float_as_int, float, int)
CPUDEVICE_BITS(__int_as_float, int, float)
CPUDEVICE_BITS(__float_as_uint, float, unsigned)
CPUDEVICE_BITS(__uint_as_float, unsigned, float)
CPUDEVICE_BITS(__double_as_longlong, double, long long)
CPUDEVICE_BITS(__longlong_as_double, long long, double)

// ---- math: libm instead of libdevice
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float rsqrt(float x) { return rsqrtf(x); }
static inline float __expf(float x) { return expf(x); }
static inline float __logf(float x) { return logf(x); }
static inline float __sinf(float x) { return sinf(x); }
static inline float __cosf(float x) { return cosf(x); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __saturatef(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline double normcdf(double x) { return 0.5 * erfc(-x / sqrt(2.0)); }
static inline float normcdff(float x) { return 0.5f * erfcf(-x / sqrtf(2.0f)); }
static inline double exp10(double x) { return pow(10.0, x); }
#define CPUDEVICE_MIN_MAX(T)                              \
  static inline T min(T a, T b) { return a < b ? a : b; } \
  static inline T max(T a, T b) { return a > b ? a : b; }
CPUDEVICE_MIN_MAX(int)
CPUDEVICE_MIN_MAX(unsigned)
CPUDEVICE_MIN_MAX(long)
CPUDEVICE_MIN_MAX(unsigned long)
CPUDEVICE_MIN_MAX(long long)
CPUDEVICE_MIN_MAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
