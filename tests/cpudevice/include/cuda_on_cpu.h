// CUDA C kernel text as host C++: included before the text of every kernel module.
// A grid runs block after block; the threads of a block that uses barriers are fibers.
#pragma once
#include <crt/host_defines.h>
#include <math.h>
#include <ucontext.h>

#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
// libstdc++ has used the name as an attribute by now; in CUDA text it is a keyword.
#define __noinline__ __attribute__((noinline))
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9
#include <vector_types.h>

extern "C" void cpudevice_kernel_error(const char *what);

namespace cpudevice {
struct Index {
  unsigned x, y, z;
};
}  // namespace cpudevice
static cpudevice::Index threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#undef __noinline__
#define __noinline__

namespace cpudevice {

enum Wait { RUNNING, AT_BLOCK, AT_WARP, DONE };
struct Fiber {
  ucontext_t context;
  Wait wait;
  Index thread;
};
static std::vector<Fiber> fibers;
static std::vector<std::unique_ptr<char[]>> stacks;
static ucontext_t scheduler;
static int current = -1;
static bool scheduled = false;
static std::function<void()> *body_of_block;
static char *dynamic_shared;  // `extern __shared__` arrays point here

static inline void start_fiber() {
  (*body_of_block)();
  fibers[current].wait = DONE;
  swapcontext(&fibers[current].context, &scheduler);
}

static inline void wait(Wait where) {
  if (!scheduled) throw std::runtime_error("a barrier is hidden from the kernel's own text");
  int me = current;
  fibers[me].wait = where;
  swapcontext(&fibers[me].context, &scheduler);
}

// CPUDEVICE_REVERSE=1 runs the threads of a block in reverse: a missing barrier shows.
static inline int place(int k, int threads) {
  static const bool reverse = getenv("CPUDEVICE_REVERSE") != nullptr;
  return reverse ? threads - 1 - k : k;
}
static inline Index thread_at(int i) {
  unsigned bx = blockDim.x, by = blockDim.y, n = i;
  return {n % bx, (n / bx) % by, n / (bx * by)};
}

// A warp goes on when all of its threads that still live have come to the same point.
static inline void release_warps(int threads) {
  for (int start = 0; start < threads; start += 32) {
    bool all = true;
    int end = std::min(threads, start + 32);
    for (int i = start; i < end; i++)
      all = all && (fibers[i].wait == AT_WARP || fibers[i].wait == DONE);
    for (int i = start; all && i < end; i++)
      if (fibers[i].wait == AT_WARP) fibers[i].wait = RUNNING;
  }
}
static inline int waiting(Wait where) {
  int n = 0;
  for (auto &f : fibers) n += f.wait == where;
  return n;
}

static inline void run_fibers(int threads) {
  const size_t stack_bytes = 64 << 10;
  fibers.resize(threads);
  while ((int)stacks.size() < threads) stacks.emplace_back(new char[stack_bytes]);
  for (int i = 0; i < threads; i++) {
    auto &f = fibers[i];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = stacks[i].get();
    f.context.uc_stack.ss_size = stack_bytes;
    f.context.uc_link = nullptr;
    makecontext(&f.context, start_fiber, 0);
    f.wait = RUNNING;
    f.thread = thread_at(i);
  }
  scheduled = true;
  while (waiting(DONE) < threads) {
    for (int k = 0; k < threads; k++) {
      current = place(k, threads);
      threadIdx = fibers[current].thread;
      if (fibers[current].wait == RUNNING) swapcontext(&scheduler, &fibers[current].context);
    }
    release_warps(threads);
    if (waiting(RUNNING)) continue;
    if (waiting(AT_BLOCK) + waiting(DONE) < threads) {
      scheduled = false;
      throw std::runtime_error("some threads wait at __syncthreads, others at a warp's barrier");
    }
    for (auto &f : fibers)
      if (f.wait == AT_BLOCK) f.wait = RUNNING;
  }
  scheduled = false;
}

static inline void run_block(int threads, bool barriers, std::function<void()> body) {
  body_of_block = &body;
  if (barriers) return run_fibers(threads);
  for (int k = 0; k < threads; k++) {
    threadIdx = thread_at(place(k, threads));
    body();
  }
}

template <class... A>
static int argument_sizes(void (*)(A...), size_t *out) {
  int i = 0;
  ((out[i++] = sizeof(A)), ...);
  return i;
}
template <class... A, size_t... I>
static void call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
  kernel(*(std::remove_reference_t<A> *)arguments[I]...);
}
template <class... A>
static void launch(void (*kernel)(A...), bool barriers, void **arguments, const unsigned *grid,
                   const unsigned *block, unsigned shared) {
  gridDim = {grid[0], grid[1], grid[2]};
  blockDim = {block[0], block[1], block[2]};
  std::vector<char> memory(shared + 64, (char)0xFF);
  dynamic_shared = memory.data();
  auto body = [&] { call(kernel, arguments, std::index_sequence_for<A...>()); };
  try {
    for (unsigned z = 0; z < grid[2]; z++)
      for (unsigned y = 0; y < grid[1]; y++)
        for (unsigned x = 0; x < grid[0]; x++) {
          blockIdx = {x, y, z};
          run_block(block[0] * block[1] * block[2], barriers, body);
        }
  } catch (const std::exception &error) {
    cpudevice_kernel_error(error.what());
  }
}

}  // namespace cpudevice

#define CPUDEVICE_KERNEL(SYMBOL, EXPRESSION, BARRIERS)                                        \
  extern "C" void cpudevice_launch_##SYMBOL(void **p, const unsigned *g, const unsigned *b,   \
                                            unsigned s) {                                     \
    cpudevice::launch(EXPRESSION, BARRIERS, p, g, b, s);                                      \
  }                                                                                           \
  extern "C" int cpudevice_sizes_##SYMBOL(size_t *out) {                                      \
    return cpudevice::argument_sizes(EXPRESSION, out);                                        \
  }

#include "cuda_intrinsics.h"
