// cuBLAS over host memory, as far as the tests need it: plain loops, column-major, float32 sums for
// the 16-bit and 32-bit types. Other functions are generated as stubs that fail: build.py.
#include <complex>
#include <cstring>
#include <functional>

#include "library.h"

using Status = int;
using c64 = std::complex<float>;
using c128 = std::complex<double>;

struct Handle {
  void *stream = nullptr;
  int pointer_mode = 0, math_mode = 0;
};

struct bf16 {
  uint16_t bits;
  operator float() const {
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    return memcpy(&f, &wide, 4), f;
  }
  bf16 &operator=(float f) {
    uint32_t wide;
    memcpy(&wide, &f, 4);
    bits = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;  // to nearest, ties to even
    return *this;
  }
};

template <class T>
static T element(const T *a, int transposed, long row, long column, int ld) {
  T x = transposed ? a[row * ld + column] : a[column * ld + row];
  if constexpr (std::is_same_v<T, c64> || std::is_same_v<T, c128>)
    return transposed == 2 ? std::conj(x) : x;
  return x;
}

// C = alpha op(A) op(B) + beta C. T: of A and B; R: of C; S: of the sums.
template <class T, class R, class S>
static void gemm(int ta, int tb, int m, int n, int k, S alpha, const void *a, int lda,
                 const void *b, int ldb, S beta, void *c, int ldc) {
  for (long j = 0; j < n; j++)
    for (long i = 0; i < m; i++) {
      S sum{};
      for (long p = 0; p < k; p++)
        sum += (S)element((const T *)a, ta, i, p, lda) * (S)element((const T *)b, tb, p, j, ldb);
      R &out = ((R *)c)[j * ldc + i];
      out = beta == S{} ? alpha * sum : alpha * sum + beta * (S)out;
    }
}

// The types of cublasGemmEx: CUDA_R_32F 0, R_64F 1, R_16F 2, C_32F 4, C_64F 5, R_16BF 14.
struct Matrix {
  const void *data;
  int type, ld;
  long long stride;
};
static int bytes_of(int type) {
  switch (type) {
    case 0: return 4;
    case 1: case 4: return 8;
    case 5: return 16;
    default: return 2;
  }
}
static const void *shifted(Matrix x, long long i) {
  return (const char *)x.data + i * x.stride * bytes_of(x.type);
}

template <class S>
static Status gemm_ex(void *h, int count, int ta, int tb, int m, int n, int k, const void *alpha,
                      Matrix a, Matrix b, const void *beta, Matrix c) {
  S al = *(const S *)alpha, be = *(const S *)beta;
  decltype(&gemm<float, float, S>) run = nullptr;
  if constexpr (std::is_same_v<S, float>) {
    if (a.type == 0 && c.type == 0) run = gemm<float, float, S>;
    if (a.type == 2 && c.type == 2) run = gemm<_Float16, _Float16, S>;
    if (a.type == 2 && c.type == 0) run = gemm<_Float16, float, S>;
    if (a.type == 14 && c.type == 14) run = gemm<bf16, bf16, S>;
    if (a.type == 14 && c.type == 0) run = gemm<bf16, float, S>;
  } else {
    run = gemm<S, S, S>;
  }
  if (!run || a.type != b.type) return lacking("cublasGemmEx of these types");
  enqueue(((Handle *)h)->stream, "cublas gemm", [=] {
    for (int i = 0; i < count; i++)
      run(ta, tb, m, n, k, al, shifted(a, i), a.ld, shifted(b, i), b.ld, be,
          (void *)shifted(c, i), c.ld);
  });
  return 0;
}
static Status choose(void *h, int count, int ta, int tb, int m, int n, int k, const void *alpha,
                     Matrix a, Matrix b, const void *beta, Matrix c) {
  auto run = a.type == 1   ? gemm_ex<double>
             : a.type == 4 ? gemm_ex<c64>
             : a.type == 5 ? gemm_ex<c128>
                           : gemm_ex<float>;
  return run(h, count, ta, tb, m, n, k, alpha, a, b, beta, c);
}

extern "C" {
Status cublasCreate_v2(void **h) { return *h = new Handle, 0; }
Status cublasDestroy_v2(void *h) { return delete (Handle *)h, 0; }
Status cublasGetVersion_v2(void *, int *v) { return *v = 120900, 0; }
Status cublasSetStream_v2(void *h, void *s) { return ((Handle *)h)->stream = s, 0; }
Status cublasGetStream_v2(void *h, void **s) { return *s = ((Handle *)h)->stream, 0; }
Status cublasSetPointerMode_v2(void *h, int m) { return ((Handle *)h)->pointer_mode = m, 0; }
Status cublasGetPointerMode_v2(void *h, int *m) { return *m = ((Handle *)h)->pointer_mode, 0; }
Status cublasSetMathMode(void *h, int m) { return ((Handle *)h)->math_mode = m, 0; }
Status cublasGetMathMode(void *h, int *m) { return *m = ((Handle *)h)->math_mode, 0; }

Status cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha,
                    const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                    const void *beta, void *c, int type_c, int ldc, int, int) {
  return choose(h, 1, ta, tb, m, n, k, alpha, {a, type_a, lda, 0}, {b, type_b, ldb, 0}, beta,
                {c, type_c, ldc, 0});
}
Status cublasGemmStridedBatchedEx(void *h, int ta, int tb, int m, int n, int k,
                                  const void *alpha, const void *a, int type_a, int lda,
                                  long long stride_a, const void *b, int type_b, int ldb,
                                  long long stride_b, const void *beta, void *c, int type_c,
                                  int ldc, long long stride_c, int count, int, int) {
  return choose(h, count, ta, tb, m, n, k, alpha, {a, type_a, lda, stride_a},
                {b, type_b, ldb, stride_b}, beta, {c, type_c, ldc, stride_c});
}
Status cublasSgemmEx(void *h, int ta, int tb, int m, int n, int k, const float *alpha,
                     const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                     const float *beta, void *c, int type_c, int ldc) {
  return choose(h, 1, ta, tb, m, n, k, alpha, {a, type_a, lda, 0}, {b, type_b, ldb, 0}, beta,
                {c, type_c, ldc, 0});
}

#define CPUDEVICE_GEMM(P, T)                                                                    \
  Status cublas##P##gemm_v2(void *h, int ta, int tb, int m, int n, int k, const T *alpha,       \
                            const T *a, int lda, const T *b, int ldb, const T *beta, T *c,      \
                            int ldc) {                                                          \
    enqueue(((Handle *)h)->stream, "cublas" #P "gemm", [=, al = *alpha, be = *beta] {           \
      gemm<T, T, T>(ta, tb, m, n, k, al, a, lda, b, ldb, be, c, ldc);                           \
    });                                                                                         \
    return 0;                                                                                   \
  }                                                                                             \
  Status cublas##P##gemmBatched(void *h, int ta, int tb, int m, int n, int k, const T *alpha,   \
                                const T *const *a, int lda, const T *const *b, int ldb,         \
                                const T *beta, T *const *c, int ldc, int count) {               \
    enqueue(((Handle *)h)->stream, "cublas" #P "gemmBatched", [=, al = *alpha, be = *beta] {    \
      for (int i = 0; i < count; i++)                                                           \
        gemm<T, T, T>(ta, tb, m, n, k, al, a[i], lda, b[i], ldb, be, c[i], ldc);                \
    });                                                                                         \
    return 0;                                                                                   \
  }                                                                                             \
  Status cublas##P##geam(void *h, int ta, int tb, int m, int n, const T *alpha, const T *a,     \
                         int lda, const T *beta, const T *b, int ldb, T *c, int ldc) {          \
    enqueue(((Handle *)h)->stream, "cublas" #P "geam", [=, al = *alpha, be = *beta] {           \
      for (long j = 0; j < n; j++)                                                              \
        for (long i = 0; i < m; i++)                                                            \
          c[j * ldc + i] = (al == T{} ? T{} : al * element(a, ta, i, j, lda)) +                 \
                           (be == T{} ? T{} : be * element(b, tb, i, j, ldb));                  \
    });                                                                                         \
    return 0;                                                                                   \
  }
CPUDEVICE_GEMM(S, float)
CPUDEVICE_GEMM(D, double)
CPUDEVICE_GEMM(C, c64)
CPUDEVICE_GEMM(Z, c128)
}
