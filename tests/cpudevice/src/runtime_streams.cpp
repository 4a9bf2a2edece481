// CUDA runtime: streams, events and graphs.
#include <algorithm>
#include <chrono>

#include "device.h"

using namespace cpudevice;

static double now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(time).count();
}

// Runs the recording stream just as far as the record that is waited for.
static void wait_for(Event *event, uint64_t record, Stream *recorder) {
  while (event->done < record && recorder && !recorder->queue.empty()) {
    Work work = std::move(recorder->queue.front());
    recorder->queue.pop_front();
    work();
  }
}

extern "C" {
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) {
  CPUDEVICE_LOCK;
  static int created = 0;
  auto *s = new Stream{++created, current_device, flags, priority};
  state().streams.push_back(s);
  *out = (cudaStream_t)s;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  return cudaStreamCreateWithPriority(out, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t *out) { return cudaStreamCreateWithFlags(out, 0); }
cudaError_t cudaStreamGetFlags(cudaStream_t s, unsigned *flags) {
  return *flags = stream_of(s)->flags, cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t s, int *priority) {
  return *priority = stream_of(s)->priority, cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {  // the object stays: events may name it
  CPUDEVICE_LOCK;
  drain(stream_of(handle));
  auto &all = state().streams;
  all.erase(std::remove(all.begin(), all.end(), stream_of(handle)), all.end());
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  CPUDEVICE_LOCK;
  Stream *s = stream_of(handle);
  if (s->capturing) {
    s->capture_broken = true;
    return fail(cudaErrorStreamCaptureUnsupported);
  }
  state().count[STREAM_SYNCS]++;
  if (s == state().defaults[s->device])
    for (auto *other : std::vector<Stream *>(state().streams))
      if (other->device == s->device && other->blocking()) drain(other);
  drain(s);
  return state().sticky;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  CPUDEVICE_LOCK;
  return stream_of(s)->queue.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t function, void *argument) {
  CPUDEVICE_LOCK;
  put(stream_of(s), [=] { function(argument); });
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  CPUDEVICE_LOCK;
  Stream *s = stream_of(handle);
  if (s == state().defaults[s->device]) return fail(cudaErrorStreamCaptureUnsupported);
  s->capturing = true, s->capture_broken = false;
  s->capture_mode = mode;
  s->graph = new Graph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  CPUDEVICE_LOCK;
  Stream *s = stream_of(handle);
  s->capturing = false;
  *graph = s->capture_broken ? nullptr : (cudaGraph_t)s->graph;
  s->graph = nullptr;
  return s->capture_broken ? fail(cudaErrorStreamCaptureInvalidated) : cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
  *status =
      stream_of(s)->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
  return *out = (cudaGraphExec_t)graph, cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t s) {
  CPUDEVICE_LOCK;
  state().count[GRAPH_LAUNCHES]++;
  auto *graph = (Graph *)handle;
  put(stream_of(s), [=] {
    for (auto &work : graph->work) work();
  });
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
  return *out = (cudaEvent_t) new Event, cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *out) { return cudaEventCreateWithFlags(out, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }  // kept: a queue may name it
cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t s) {
  CPUDEVICE_LOCK;
  auto *event = (Event *)handle;
  uint64_t record = ++event->recorded;
  event->stream = stream_of(s);
  put(event->stream, [=] {
    event->done = std::max(event->done, record);
    event->milliseconds = now();
  });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t handle) {
  CPUDEVICE_LOCK;
  auto *event = (Event *)handle;
  return event->done >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  CPUDEVICE_LOCK;
  state().count[EVENT_SYNCS]++;
  auto *event = (Event *)handle;
  wait_for(event, event->recorded, event->stream);
  return state().sticky;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t awaited, unsigned) {
  CPUDEVICE_LOCK;
  auto *event = (Event *)awaited;
  uint64_t record = event->recorded;
  Stream *s = stream_of(handle);
  if (s->capturing || (event->stream && event->stream->capturing)) return cudaSuccess;
  Stream *recorder = event->stream;
  put(s, [=] { wait_for(event, record, recorder); });
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t start, cudaEvent_t end) {
  *out = (float)(((Event *)end)->milliseconds - ((Event *)start)->milliseconds);
  return cudaSuccess;
}
}
