// Replaces the C functions that CuPy's compiled modules import from its runtime module (the table
// __pyx_capi__ of cupy_backends.cuda.api.runtime), and their Python forms, by the device's own.
// Nothing of CuPy is rebuilt; a function whose signature changed is an ImportError.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "library.h"

namespace {

// Cython's types: objects, pointers as intptr_t, the flag "skip dispatch", optional arguments.
using Object = PyObject *;
using Pointer = intptr_t;
using Skip = int;
struct OptionalUnsigned {
  int given;
  unsigned value;
};
struct OptionalInt {
  int given;
  int value;
};

Object runtime_module;

template <class F>
bool run(F call) {
  cudaError_t error;
  Py_BEGIN_ALLOW_THREADS;
  error = call();
  Py_END_ALLOW_THREADS;
  if (error == cudaSuccess) return true;
  Object kind = PyObject_GetAttrString(runtime_module, "CUDARuntimeError");
  Object raised = kind ? PyObject_CallFunction(kind, "i", (int)error) : nullptr;
  if (raised) PyErr_SetObject(kind, raised);
  Py_XDECREF(raised);
  Py_XDECREF(kind);
  return false;
}
// On an error: null for objects, 0 for pointers, -1 for numbers, as CuPy declares them.
#define NONE(call) return run([&] { return call; }) ? Py_NewRef(Py_None) : nullptr
#define POINTER(type, call) \
  type out{};               \
  return run([&] { return call; }) ? (Pointer)out : 0
#define NUMBER(type, call) \
  type out{};              \
  return run([&] { return call; }) ? (int)out : -1

void *at(Pointer p) { return (void *)p; }
cudaStream_t stream(Pointer p) { return (cudaStream_t)p; }
cudaEvent_t event(Pointer p) { return (cudaEvent_t)p; }

// ---- devices
int _getCUDAMajorVersion(Skip) { return 12; }
int driverGetVersion(Skip) { return 12090; }
int runtimeGetVersion(Skip) { return 12090; }
Object check_status(int status, Skip) { NONE((cudaError_t)status); }
int getDevice(Skip) { NUMBER(int, cudaGetDevice(&out)); }
Object setDevice(int d, Skip) { NONE(cudaSetDevice(d)); }
int getDeviceCount(Skip) { NUMBER(int, cudaGetDeviceCount(&out)); }
int deviceGetAttribute(int attribute, int d, Skip) {
  NUMBER(int, cudaDeviceGetAttribute(&out, (cudaDeviceAttr)attribute, d));
}
Object deviceSynchronize(Skip) { NONE(cudaDeviceSynchronize()); }
int deviceCanAccessPeer(int, int, Skip) { return 1; }
Object deviceEnablePeerAccess(int, Skip) { Py_RETURN_NONE; }
Object deviceGetPCIBusId(int d, Skip) { return PyUnicode_FromFormat("0000:%02x:00.0", d); }
Object getDeviceProperties(int d, Skip) {
  cudaDeviceProp p;
  if (!run([&] { return cudaGetDeviceProperties_v2(&p, d); })) return nullptr;
  return Py_BuildValue(
      "{s:y,s:n,s:n,s:i,s:i,s:i,s:i,s:i,s:(iii),s:(iii)}", "name", p.name, "totalGlobalMem",
      (Py_ssize_t)p.totalGlobalMem, "sharedMemPerBlock", (Py_ssize_t)p.sharedMemPerBlock,
      "warpSize", p.warpSize, "maxThreadsPerBlock", p.maxThreadsPerBlock, "major", p.major,
      "minor", p.minor, "multiProcessorCount", p.multiProcessorCount, "maxThreadsDim", 1024, 1024,
      64, "maxGridSize", 2147483647, 65535, 65535);
}

// ---- memory
Pointer malloc_(size_t n, Skip) { POINTER(void *, cudaMalloc(&out, n)); }
Pointer mallocManaged(size_t n, Skip, OptionalUnsigned *) { POINTER(void *, cudaMalloc(&out, n)); }
Pointer mallocAsync(size_t n, Pointer s, Skip) {
  POINTER(void *, cudaMallocAsync(&out, n, stream(s)));
}
Pointer hostAlloc(size_t n, unsigned f, Skip) { POINTER(void *, cudaHostAlloc(&out, n, f)); }
Object hostRegister(Pointer p, size_t n, unsigned f, Skip) { NONE(cudaHostRegister(at(p), n, f)); }
Object hostUnregister(Pointer p, Skip) { NONE(cudaHostUnregister(at(p))); }
Object free_(Pointer p, Skip) { NONE(cudaFree(at(p))); }
Object freeHost(Pointer p, Skip) { NONE(cudaFreeHost(at(p))); }
Object freeAsync(Pointer p, Pointer s, Skip) { NONE(cudaFreeAsync(at(p), stream(s))); }
Object memGetInfo(Skip) {
  size_t available, total;
  if (!run([&] { return cudaMemGetInfo(&available, &total); })) return nullptr;
  return Py_BuildValue("(nn)", (Py_ssize_t)available, (Py_ssize_t)total);
}
Object memcpy_(Pointer to, Pointer from, size_t n, int kind, Skip) {
  NONE(cudaMemcpy(at(to), at(from), n, (cudaMemcpyKind)kind));
}
Object memcpyAsync(Pointer to, Pointer from, size_t n, int kind, Pointer s, Skip) {
  NONE(cudaMemcpyAsync(at(to), at(from), n, (cudaMemcpyKind)kind, stream(s)));
}
Object memcpyPeer(Pointer to, int a, Pointer from, int b, size_t n, Skip) {
  NONE(cudaMemcpyPeer(at(to), a, at(from), b, n));
}
Object memcpyPeerAsync(Pointer to, int a, Pointer from, int b, size_t n, Pointer s, Skip) {
  NONE(cudaMemcpyPeerAsync(at(to), a, at(from), b, n, stream(s)));
}
Object memset_(Pointer p, int v, size_t n, Skip) { NONE(cudaMemset(at(p), v, n)); }
Object memsetAsync(Pointer p, int v, size_t n, Pointer s, Skip) {
  NONE(cudaMemsetAsync(at(p), v, n, stream(s)));
}
Object pointerGetAttributes(Pointer p, Skip) {
  cudaPointerAttributes a;
  if (!run([&] { return cudaPointerGetAttributes(&a, at(p)); })) return nullptr;
  return PyObject_CallMethod(runtime_module, "PointerAttributes", "inni", a.device,
                             (Py_ssize_t)a.devicePointer, (Py_ssize_t)a.hostPointer, (int)a.type);
}
int pointerGetMemoryType(Pointer p, Skip) {
  cudaPointerAttributes a;
  return run([&] { return cudaPointerGetAttributes(&a, at(p)); }) ? a.type : -1;
}

// ---- streams, graphs, events
Pointer streamCreate(Skip) { POINTER(cudaStream_t, cudaStreamCreate(&out)); }
Pointer streamCreateWithFlags(unsigned f, Skip) {
  POINTER(cudaStream_t, cudaStreamCreateWithFlags(&out, f));
}
Pointer streamCreateWithPriority(unsigned f, int p, Skip) {
  POINTER(cudaStream_t, cudaStreamCreateWithPriority(&out, f, p));
}
unsigned streamGetFlags(Pointer s, Skip) {
  unsigned flags = 0;
  cudaStreamGetFlags(stream(s), &flags);
  return flags;
}
int streamGetPriority(Pointer s, Skip) { NUMBER(int, cudaStreamGetPriority(stream(s), &out)); }
Object streamDestroy(Pointer s, Skip) { NONE(cudaStreamDestroy(stream(s))); }
Object streamSynchronize(Pointer s, Skip) { NONE(cudaStreamSynchronize(stream(s))); }
Object streamQuery(Pointer s, Skip) { return PyLong_FromLong(cudaStreamQuery(stream(s))); }
Object streamWaitEvent(Pointer s, Pointer e, Skip, OptionalUnsigned *) {
  NONE(cudaStreamWaitEvent(stream(s), event(e), 0));
}
void call_python(Object function, Object argument) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Object result = PyObject_CallFunctionObjArgs(function, argument, nullptr);
  if (!result) PyErr_WriteUnraisable(function);
  Py_XDECREF(result);
  PyGILState_Release(gil);
}
void forget(Object object) {
  PyGILState_STATE gil = PyGILState_Ensure();
  Py_DECREF(object);
  PyGILState_Release(gil);
}
using Held = std::shared_ptr<PyObject>;
Held hold(Object object) { return Held(Py_NewRef(object), forget); }

struct HostCall {
  Held function;
  Pointer argument;
};
void call_host(void *data) {  // once: the stream's work owns it
  std::unique_ptr<HostCall> one((HostCall *)data);
  PyGILState_STATE gil = PyGILState_Ensure();
  Object argument = PyLong_FromLongLong(one->argument);
  call_python(one->function.get(), argument);
  Py_DECREF(argument);
  PyGILState_Release(gil);
}
Object launchHostFunc(Pointer s, Object function, Pointer argument, Skip) {
  auto *one = new HostCall{hold(function), argument};
  NONE(cudaLaunchHostFunc(stream(s), call_host, one));
}
Object streamBeginCapture(Pointer s, Skip, OptionalInt *mode) {
  auto chosen = (cudaStreamCaptureMode)(mode ? mode->value : cudaStreamCaptureModeRelaxed);
  NONE(cudaStreamBeginCapture(stream(s), chosen));
}
Pointer streamEndCapture(Pointer s, Skip) {
  POINTER(cudaGraph_t, cudaStreamEndCapture(stream(s), &out));
}
int streamIsCapturing(Pointer s, Skip) {
  NUMBER(cudaStreamCaptureStatus, cudaStreamIsCapturing(stream(s), &out));
}
Pointer graphInstantiate(Pointer g, Skip) {
  POINTER(cudaGraphExec_t, cudaGraphInstantiate(&out, (cudaGraph_t)g, 0));
}
Object graphLaunch(Pointer e, Pointer s, Skip) {
  NONE(cudaGraphLaunch((cudaGraphExec_t)e, stream(s)));
}
Object graphUpload(Pointer, Pointer, Skip) { Py_RETURN_NONE; }
Object graphDestroy(Pointer, Skip) { Py_RETURN_NONE; }
Object graphExecDestroy(Pointer, Skip) { Py_RETURN_NONE; }
Pointer eventCreate(Skip) { POINTER(cudaEvent_t, cudaEventCreate(&out)); }
Pointer eventCreateWithFlags(unsigned f, Skip) {
  POINTER(cudaEvent_t, cudaEventCreateWithFlags(&out, f));
}
Object eventDestroy(Pointer, Skip) { Py_RETURN_NONE; }
Object eventRecord(Pointer e, Pointer s, Skip) { NONE(cudaEventRecord(event(e), stream(s))); }
Object eventSynchronize(Pointer e, Skip) { NONE(cudaEventSynchronize(event(e))); }
Object eventQuery(Pointer e, Skip) { return PyLong_FromLong(cudaEventQuery(event(e))); }
float eventElapsedTime(Pointer a, Pointer b, Skip) {
  float milliseconds = 0;
  cudaEventElapsedTime(&milliseconds, event(a), event(b));
  return milliseconds;
}
Pointer deviceGetDefaultMemPool(int, Skip) { return 1; }
Pointer deviceGetMemPool(int, Skip) { return 1; }
Object profilerStart(Skip) { Py_RETURN_NONE; }
Object profilerStop(Skip) { Py_RETURN_NONE; }
Object ensure_context() { Py_RETURN_NONE; }
Object ensure_peer(int, Skip) { Py_RETURN_NONE; }

#include "cupy_table_wrap.h"

}  // namespace

PyMODINIT_FUNC PyInit_cupy_table() { return PyModule_Create(&definition); }
