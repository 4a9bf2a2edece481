// CUDA runtime: devices, memory and copies over host memory.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device.h"

using namespace cpudevice;

static const size_t TOTAL_BYTES = 8ull << 30;

static void *allocate(size_t bytes, Kind kind) {
  void *p = nullptr;
  bytes = bytes ? bytes : 1;
  if (posix_memalign(&p, 512, bytes)) return nullptr;
  memset(p, 0xFF, bytes);  // NaN: memory read before it is written shows
  state().allocations[(uintptr_t)p] = {bytes, current_device, kind};
  return p;
}

static void count_copy(const void *to, const void *from, size_t bytes) {
  Kind target = kind_of(to), source = kind_of(from);
  auto *count = state().count;
  if (target == DEVICE && source == DEVICE) {
    count[D2D]++, count[BYTES_D2D] += bytes;
  } else if (target == DEVICE) {
    count[H2D]++, count[BYTES_H2D] += bytes;
  } else if (source == DEVICE) {
    count[D2H]++, count[BYTES_D2H] += bytes;
  }
}

extern "C" {
const char *cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported: no such function in the double";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    default: return "cudaErrorUnknown";
  }
}
const char *cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }
cudaError_t cudaGetLastError() {
  auto e = state().last_error;
  state().last_error = cudaSuccess;
  return e;
}
cudaError_t cudaDriverGetVersion(int *v) { return *v = 12090, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *v) { return *v = 12090, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *n) { return *n = state().devices, cudaSuccess; }
cudaError_t cudaGetDevice(int *d) { return *d = current_device, cudaSuccess; }
cudaError_t cudaSetDevice(int d) {
  if (d < 0 || d >= state().devices) return fail(cudaErrorInvalidDevice);
  current_device = d;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *v, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *v = state().capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *v = state().capability % 10; break;
    case cudaDevAttrMultiProcessorCount: *v = 2; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
    case cudaDevAttrMemoryPoolsSupported: *v = 1; break;
    default: *v = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp *p, int) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "CPU test device");
  p->totalGlobalMem = TOTAL_BYTES;
  p->sharedMemPerBlock = 49152;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->major = state().capability / 10;
  p->minor = state().capability % 10;
  p->multiProcessorCount = 2;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  CPUDEVICE_LOCK;
  for (auto *s : state().streams)
    if (s->capturing) return fail(cudaErrorStreamCaptureUnsupported);
  state().count[DEVICE_SYNCS]++;
  drain_device(current_device);
  return state().sticky;
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
  CPUDEVICE_LOCK;
  if (capture_forbids()) return fail(cudaErrorStreamCaptureUnsupported);
  state().count[MALLOCS]++;
  *p = allocate(bytes, DEVICE);
  return *p ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t) { return cudaMalloc(p, n); }
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned) {
  CPUDEVICE_LOCK;
  state().count[HOST_ALLOCS]++;
  *p = allocate(bytes, PINNED);
  return *p ? cudaSuccess : fail(cudaErrorMemoryAllocation);
}
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned) {
  CPUDEVICE_LOCK;
  state().allocations[(uintptr_t)p] = {bytes, current_device, PINNED};
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void *p) {
  CPUDEVICE_LOCK;
  state().allocations.erase((uintptr_t)p);
  return cudaSuccess;
}
cudaError_t cudaFree(void *p) {  // waits for the device, as the real one
  CPUDEVICE_LOCK;
  if (!p) return cudaSuccess;
  drain_device(-1);
  state().count[FREES]++;
  state().count[FREE_SYNCS]++;
  auto found = state().allocations.find((uintptr_t)p);
  if (found == state().allocations.end()) return fail(cudaErrorInvalidValue);
  memset(p, 0xFE, found->second.bytes);  // memory read after it was freed shows
  free(p);
  state().allocations.erase(found);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void *p) { return cudaFree(p); }
cudaError_t cudaFreeAsync(void *p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  CPUDEVICE_LOCK;
  *available = *total = TOTAL_BYTES;
  for (auto &[start, allocation] : state().allocations)
    if (allocation.kind == DEVICE) *available -= allocation.bytes;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *p) {
  CPUDEVICE_LOCK;
  memset(a, 0, sizeof *a);
  Allocation *found = find(p);
  a->type = !found                  ? cudaMemoryTypeUnregistered
            : found->kind == DEVICE ? cudaMemoryTypeDevice
                                    : cudaMemoryTypeHost;
  a->device = found ? found->device : -2;
  a->devicePointer = found ? (void *)p : nullptr;
  a->hostPointer = found && found->kind == DEVICE ? nullptr : (void *)p;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  CPUDEVICE_LOCK;
  Stream *s = stream_of(handle);
  Kind target = kind_of(to), source = kind_of(from);
  if (kind == cudaMemcpyHostToDevice && source == DEVICE) return fail(cudaErrorInvalidValue);
  if (kind == cudaMemcpyDeviceToHost && target == DEVICE) return fail(cudaErrorInvalidValue);
  count_copy(to, from, bytes);
  if (source == PAGEABLE && target == DEVICE && !s->capturing) {  // staged by the driver
    std::vector<char> staged((const char *)from, (const char *)from + bytes);
    put(s, [=] { memcpy(to, staged.data(), bytes); });
    return cudaSuccess;
  }
  put(s, [=] { memcpy(to, from, bytes); });
  if (target == PAGEABLE && !s->capturing) {  // to pageable memory: returns when it is done
    drain(s);
    state().count[BLOCKING_COPIES]++;
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  CPUDEVICE_LOCK;
  if (capture_forbids()) return fail(cudaErrorStreamCaptureUnsupported);
  count_copy(to, from, bytes);
  state().count[BLOCKING_COPIES]++;
  put(stream_of(nullptr), [=] { memcpy(to, from, bytes); });
  drain(stream_of(nullptr));
  return cudaSuccess;
}
cudaError_t cudaMemcpyPeer(void *to, int, const void *from, int, size_t bytes) {
  return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
}
cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes,
                                cudaStream_t s) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s);
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s) {
  CPUDEVICE_LOCK;
  state().count[MEMSETS]++;
  put(stream_of(s), [=] { memset(p, value, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemset(void *p, int v, size_t n) { return cudaMemsetAsync(p, v, n, nullptr); }
}
