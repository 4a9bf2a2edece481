// CUDA driver API, as far as CuPy loads it from libcuda.so.1: a module is a host library.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"

using namespace cpudevice;

struct Module {
  void *library;
};
struct Function {
  std::string name;
  void (*run)(void **arguments, const unsigned *grid, const unsigned *block, unsigned shared);
  int (*sizes)(size_t *out);
};

// The image is an ELF library; dlopen wants a file. It is unlinked as soon as it is loaded.
static void *load_image(const void *image) {
  auto *header = (const Elf64_Ehdr *)image;
  if (memcmp(header->e_ident, ELFMAG, 4) || header->e_machine != EM_X86_64) return nullptr;
  size_t bytes = header->e_shoff + (size_t)header->e_shnum * header->e_shentsize;
  const char *folder = getenv("TMPDIR");
  std::string path = std::string(folder && *folder ? folder : "/tmp") + "/cpudevice_XXXXXX";
  int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  size_t written = 0;
  while (written < bytes) {
    ssize_t n = write(file, (const char *)image + written, bytes - written);
    if (n <= 0) break;
    written += n;
  }
  close(file);
  void *library = written == bytes ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) fprintf(stderr, "CPU test device: %s\n", dlerror());
  unlink(path.c_str());
  return library;
}

extern "C" {
CUresult cuGetErrorName(CUresult error, const char **text) {
  static thread_local char name[32];
  snprintf(name, sizeof name, "CUDA_ERROR_%d", error);
  return *text = name, CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **text) {
  return *text = "error of the CPU test device", CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *c) {
  return *c = (CUcontext)(uintptr_t)(current_device + 1), CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxCreate_v2(CUcontext *c, unsigned, CUdevice) { return cuCtxGetCurrent(c); }
CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxGetDevice(CUdevice *d) { return *d = current_device, CUDA_SUCCESS; }
CUresult cuStreamGetCtx(CUstream, CUcontext *c) { return cuCtxGetCurrent(c); }

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  void *library = load_image(image);
  if (!library) return CUDA_ERROR_INVALID_IMAGE;
  return *out = (CUmodule) new Module{library}, CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
  void *library = ((Module *)module)->library;
  auto *f = new Function{name};
  f->run = (decltype(f->run))dlsym(library, ("cpudevice_launch_" + f->name).c_str());
  f->sizes = (decltype(f->sizes))dlsym(library, ("cpudevice_sizes_" + f->name).c_str());
  if (!f->run) {
    delete f;
    return CUDA_ERROR_NOT_FOUND;
  }
  return *out = (CUfunction)f, CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module,
                              const char *name) {
  void *found = dlsym(((Module *)module)->library, name);
  if (!found) return CUDA_ERROR_NOT_FOUND;
  if (bytes) *bytes = 0;
  return *out = (CUdeviceptr)found, CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream,
                        void **arguments, void **) {
  CPUDEVICE_LOCK;
  auto *f = (Function *)handle;
  auto *s = stream_of(stream);
  uint64_t threads = (uint64_t)bx * by * bz;
  if (!gx || !gy || !gz || !threads || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (state().sticky != cudaSuccess) return CUDA_ERROR_LAUNCH_FAILED;
  state().count[LAUNCHES]++;
  state().count[THREADS] += threads * gx * gy * gz;
  if (state().logging)
    state().log.push_back(f->name + " grid=" + std::to_string(gx) + "," + std::to_string(gy) +
                          "," + std::to_string(gz) + " block=" + std::to_string(threads) +
                          " stream=" + std::to_string(s->id));
  if (state().null_mode && !s->capturing) return CUDA_SUCCESS;
  size_t sizes[256];
  std::vector<std::vector<char>> values;  // a launch copies its arguments
  for (int i = 0, n = f->sizes(sizes); i < n; i++)
    values.emplace_back((char *)arguments[i], (char *)arguments[i] + sizes[i]);
  put(s, [=]() mutable {
    std::vector<void *> pointers;
    for (auto &value : values) pointers.push_back(value.data());
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    f->run(pointers.data(), grid, block, shared);
  });
  return state().sticky == cudaSuccess ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}
CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction, int, size_t) {
  return *n = 2, CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction, CUoccupancyB2DSize,
                                          size_t, int) {
  return *grid = 4, *block = 256, CUDA_SUCCESS;
}
}
