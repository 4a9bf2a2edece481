// For the doubles of CUDA libraries: work on a stream counts as one launch of that library.
#pragma once
#include <cstdint>
#include <functional>

extern "C" void cpudevice_note_missing(const char *function);
namespace cpudevice {
void enqueue(void *stream, const char *name, std::function<void()> work);
}
using cpudevice::enqueue;

// A case that a double lacks: noted, and the library's status "not supported".
static inline int lacking(const char *what) { return cpudevice_note_missing(what), 15; }
