// What the doubles share: streams as queues, allocations, counters. One lock guards all of it.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace cpudevice {

using Work = std::function<void()>;

struct Graph {
  std::vector<Work> work;
};

// A CUDA stream: work that was asked for and has not run. Eager mode empties it at once.
struct Stream {
  int id, device;
  unsigned flags;
  int priority;
  std::deque<Work> queue;
  bool capturing = false, capture_broken = false;
  int capture_mode = 0;
  Graph *graph = nullptr;
  bool blocking() const { return !(flags & cudaStreamNonBlocking); }
};

// A record is done when `done` has reached its number; `recorded` is the newest record's.
struct Event {
  Stream *stream = nullptr;
  double milliseconds = 0;
  uint64_t recorded = 0, done = 0;
};

enum Kind { PAGEABLE, PINNED, DEVICE };
struct Allocation {
  size_t bytes;
  int device;
  Kind kind;
};

// The order is that of COUNTERS in native.py.
enum Counter {
  LAUNCHES, H2D, D2H, D2D, MEMSETS, STREAM_SYNCS, DEVICE_SYNCS, EVENT_SYNCS, BLOCKING_COPIES,
  FREE_SYNCS, BYTES_H2D, BYTES_D2H, BYTES_D2D, MALLOCS, FREES, HOST_ALLOCS, GRAPH_LAUNCHES,
  THREADS, COUNTERS
};

struct State {
  std::recursive_mutex lock;
  uint64_t count[COUNTERS] = {};
  bool deferred = false, null_mode = false, logging = false;
  int devices = 1, capability = 80;
  std::map<uintptr_t, Allocation> allocations;
  std::vector<Stream *> defaults, streams;  // one default stream a device; those created
  std::vector<std::string> log, missing;
  cudaError_t last_error = cudaSuccess, sticky = cudaSuccess;
};

State &state();
extern thread_local int current_device;

Stream *stream_of(void *handle);          // null and the two special handles: the default stream
void put(Stream *stream, Work work);      // append; run at once unless deferred or capturing
void drain(Stream *stream);               // run all that waits
void drain_device(int device);            // all streams of a device; -1: of all devices
bool capture_forbids();                   // a global capture is on: it breaks, the call must fail
Allocation *find(const void *pointer);    // the allocation around a pointer, or null
Kind kind_of(const void *pointer);
cudaError_t fail(cudaError_t error);      // remember as the last error, and return it
cudaError_t unsupported(const char *function);  // note as missing, fail with NotSupported

#define CPUDEVICE_LOCK \
  std::lock_guard<std::recursive_mutex> cpudevice_guard(cpudevice::state().lock)

}  // namespace cpudevice
