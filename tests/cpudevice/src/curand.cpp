// cuRAND's host functions over host memory: a Mersenne twister, not cuRAND's sequences.
#include <random>

#include "library.h"

struct Generator {
  std::mt19937_64 bits{0};
  void *stream = nullptr;
};
using Status = int;

template <class T, class Draw>
static Status fill(Generator *g, T *out, size_t n, Draw draw) {
  enqueue(g->stream, "curand", [=]() mutable {
    for (size_t i = 0; i < n; i++) out[i] = (T)draw(g->bits);
  });
  return 0;
}
// In (0, 1], as cuRAND's.
static float uniform32(std::mt19937_64 &bits) { return ((bits() >> 40) + 1) / 16777216.0f; }
static double uniform64(std::mt19937_64 &bits) {
  return ((bits() >> 11) + 1) / 9007199254740992.0;
}

extern "C" {
Status curandCreateGenerator(Generator **g, int) { return *g = new Generator, 0; }
Status curandDestroyGenerator(Generator *g) { return delete g, 0; }
Status curandGetVersion(int *v) { return *v = 10309, 0; }
Status curandSetStream(Generator *g, void *s) { return g->stream = s, 0; }
Status curandSetPseudoRandomGeneratorSeed(Generator *g, unsigned long long seed) {
  return g->bits.seed(seed), 0;
}
Status curandSetGeneratorOffset(Generator *, unsigned long long) { return 0; }
Status curandSetGeneratorOrdering(Generator *, int) { return 0; }
Status curandGenerate(Generator *g, unsigned *p, size_t n) {
  return fill(g, p, n, [](auto &bits) { return bits(); });
}
Status curandGenerateLongLong(Generator *g, unsigned long long *p, size_t n) {
  return fill(g, p, n, [](auto &bits) { return bits(); });
}
Status curandGenerateUniform(Generator *g, float *p, size_t n) {
  return fill(g, p, n, uniform32);
}
Status curandGenerateUniformDouble(Generator *g, double *p, size_t n) {
  return fill(g, p, n, uniform64);
}
Status curandGenerateNormal(Generator *g, float *p, size_t n, float mean, float deviation) {
  return fill(g, p, n, std::normal_distribution<float>(mean, deviation));
}
Status curandGenerateNormalDouble(Generator *g, double *p, size_t n, double mean,
                                  double deviation) {
  return fill(g, p, n, std::normal_distribution<double>(mean, deviation));
}
Status curandGenerateLogNormal(Generator *g, float *p, size_t n, float mean, float deviation) {
  return fill(g, p, n, std::lognormal_distribution<float>(mean, deviation));
}
Status curandGenerateLogNormalDouble(Generator *g, double *p, size_t n, double mean,
                                     double deviation) {
  return fill(g, p, n, std::lognormal_distribution<double>(mean, deviation));
}
Status curandGeneratePoisson(Generator *g, unsigned *p, size_t n, double mean) {
  return fill(g, p, n, std::poisson_distribution<int>(mean));
}
}
