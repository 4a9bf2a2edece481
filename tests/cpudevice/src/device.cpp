// The device's state and the control functions that native.py calls.
#include "device.h"
#include "library.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace cpudevice {

thread_local int current_device = 0;

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

State &state() {
  static State *one = [] {
    auto *s = new State;  // never freed: destructors of other libraries may still call in
    s->devices = number("CPUDEVICE_COUNT", 1);
    s->capability = number("CPUDEVICE_CAPABILITY", 80);
    s->deferred = number("CPUDEVICE_DEFERRED", 0);
    for (int i = 0; i < s->devices; i++) s->defaults.push_back(new Stream{0, i, 0, 0});
    return s;
  }();
  return *one;
}

Stream *stream_of(void *handle) {
  if ((uintptr_t)handle <= 2) return state().defaults[current_device];
  return (Stream *)handle;
}

void drain(Stream *s) {
  while (!s->queue.empty()) {
    Work work = std::move(s->queue.front());
    s->queue.pop_front();
    work();
  }
}

void drain_device(int device) {
  for (auto *s : state().defaults)
    if (device < 0 || s->device == device) drain(s);
  for (auto *s : std::vector<Stream *>(state().streams))
    if (device < 0 || s->device == device) drain(s);
}

void put(Stream *s, Work work) {
  if (s->capturing) {
    s->graph->work.push_back(std::move(work));
    return;
  }
  // The default stream and the blocking streams of its device wait for each other.
  Stream *standard = state().defaults[s->device];
  if (s == standard) {
    for (auto *other : std::vector<Stream *>(state().streams))
      if (other->device == s->device && other->blocking() && !other->capturing) drain(other);
  } else if (s->blocking()) {
    drain(standard);
  }
  s->queue.push_back(std::move(work));
  if (!state().deferred) drain(s);
}

bool capture_forbids() {
  for (auto *s : state().streams)
    if (s->capturing && s->capture_mode == cudaStreamCaptureModeGlobal) {
      s->capture_broken = true;
      return true;
    }
  return false;
}

Allocation *find(const void *pointer) {
  auto &all = state().allocations;
  auto after = all.upper_bound((uintptr_t)pointer);
  if (after == all.begin()) return nullptr;
  auto &[start, allocation] = *--after;
  return (uintptr_t)pointer < start + allocation.bytes ? &allocation : nullptr;
}

Kind kind_of(const void *pointer) {
  Allocation *found = find(pointer);
  return found ? found->kind : PAGEABLE;
}

cudaError_t fail(cudaError_t error) { return state().last_error = error; }

cudaError_t unsupported(const char *function) {
  CPUDEVICE_LOCK;
  state().missing.push_back(function);
  return fail(cudaErrorNotSupported);
}

void enqueue(void *handle, const char *name, Work work) {
  CPUDEVICE_LOCK;
  state().count[LAUNCHES]++;
  if (state().logging) state().log.push_back(name);
  if (!state().null_mode) put(stream_of(handle), std::move(work));
}

}  // namespace cpudevice

using namespace cpudevice;

static int text_of(std::vector<std::string> &lines, char *buffer, int size) {
  std::string text;
  for (auto &line : lines) text += line + '\n';
  strncpy(buffer, text.c_str(), size - 1);
  buffer[size - 1] = 0;
  return (int)lines.size();
}

extern "C" {
int cpudevice_counters(uint64_t *out) {
  CPUDEVICE_LOCK;
  memcpy(out, state().count, sizeof state().count);
  return COUNTERS;
}
void cpudevice_reset() {
  CPUDEVICE_LOCK;
  memset(state().count, 0, sizeof state().count);
  state().log.clear();
  state().missing.clear();
  state().sticky = cudaSuccess;
}
int cpudevice_set_deferred(int on) {  // returns what it was
  CPUDEVICE_LOCK;
  if (!on) drain_device(-1);
  return std::exchange(state().deferred, on != 0);
}
void cpudevice_set_null(int on) { state().null_mode = on; }
void cpudevice_set_log(int on) { state().logging = on; }
int cpudevice_log(char *buffer, int size) {
  CPUDEVICE_LOCK;
  return text_of(state().log, buffer, size);
}
int cpudevice_missing(char *buffer, int size) {
  CPUDEVICE_LOCK;
  return text_of(state().missing, buffer, size);
}
void cpudevice_note_missing(const char *function) { unsupported(function); }
int cpudevice_pending() {
  CPUDEVICE_LOCK;
  size_t n = 0;
  for (auto *s : state().defaults) n += s->queue.size();
  for (auto *s : state().streams) n += s->queue.size();
  return (int)n;
}
// A kernel found a mistake (a barrier that not all threads reach): the next call reports it.
void cpudevice_kernel_error(const char *what) {
  CPUDEVICE_LOCK;
  fprintf(stderr, "CPU test device: %s\n", what);
  state().sticky = cudaErrorLaunchFailure;
}
}
