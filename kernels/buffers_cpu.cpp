// Memory of gradhook's own large NumPy arrays: aligned, and kept when an array dies, as the page
// faults of fresh memory cost more than what is done with it. NumPy asks through its allocator
// interface (NEP 49), so a block is free exactly when the array that owns it is.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

// Python's and NumPy's C interfaces, as far as they are used: no headers of theirs are needed.
extern "C" {
struct _object;
void* PyCapsule_New(void* pointer, const char* name, void (*destructor)(_object*));
_object* PyObject_Call(_object* callable, _object* args, _object* kwargs);
void Py_DecRef(_object*);
void PyErr_Fetch(_object**, _object**, _object**);
void PyErr_Restore(_object*, _object*, _object*);
}

namespace {

struct Allocator {
    void* context;
    void* (*malloc)(void*, size_t);
    void* (*calloc)(void*, size_t, size_t);
    void* (*realloc)(void*, void*, size_t);
    void (*free)(void*, void*, size_t);
};

struct Handler {
    char name[127];
    uint8_t version;
    Allocator allocator;
};

constexpr size_t line = 64;         // what a large block is aligned to, and the head before it
constexpr size_t small_head = 16;   // of a block that is the C library's
constexpr size_t least = 1 << 16;   // bytes of the smallest large block
constexpr size_t huge = size_t(1) << 21;  // a huge page

// Blocks that no array owns, the one that was freed first first.
struct Pool {
    struct Block {
        char* memory;
        size_t size;
    };
    std::mutex guard;
    std::list<Block> blocks;
    std::unordered_map<size_t, std::vector<std::list<Block>::iterator>> by_size;
    size_t held = 0, limit = size_t(256) << 20;
    long long hits = 0, misses = 0;

    void drop_first() {
        auto first = blocks.begin();
        auto& same = by_size[first->size];
        for (size_t k = 0; k < same.size(); ++k)
            if (same[k] == first) {
                same.erase(same.begin() + static_cast<long>(k));
                break;
            }
        held -= first->size;
        free(first->memory);
        blocks.erase(first);
    }

    void shrink(size_t to) {
        while (held > to && !blocks.empty()) drop_first();
    }

    char* take(size_t size) {
        const std::lock_guard<std::mutex> lock(guard);
        const auto same = by_size.find(size);
        if (same == by_size.end() || same->second.empty()) {
            ++misses;
            return nullptr;
        }
        ++hits;
        const auto block = same->second.back();
        char* memory = block->memory;
        same->second.pop_back();
        blocks.erase(block);
        held -= size;
        return memory;
    }

    bool keep(char* memory, size_t size) {
        const std::lock_guard<std::mutex> lock(guard);
        if (size > limit / 2) return false;
        shrink(limit - size);
        blocks.push_back(Block{memory, size});
        by_size[size].push_back(std::prev(blocks.end()));
        held += size;
        return true;
    }
};

Pool& pool() {
    static Pool* const only = new Pool;  // arrays may die after static objects
    return *only;
}

// A child must not find the lock held by a thread that it does not have.
[[maybe_unused]] const int held_over_fork =
    pthread_atfork([] { pool().guard.lock(); }, [] { pool().guard.unlock(); },
                   [] { pool().guard.unlock(); });

// Sizes in steps of an eighth of a power of two, so that near ones share blocks.
size_t rounded(size_t size) {
    const int top = 63 - __builtin_clzll(size);
    const size_t step = size_t(1) << (top > 15 ? top - 3 : 12);
    return (size + step - 1) / step * step;
}

// The bytes of a block lie before it.
size_t& size_of(void* block) { return static_cast<size_t*>(block)[-1]; }

void* allocate(void*, size_t size) {
    if (size < least) {
        char* const memory = static_cast<char*>(malloc(size + small_head));
        if (!memory) return nullptr;
        size_of(memory + small_head) = size;
        return memory + small_head;
    }
    const size_t whole = rounded(size + line);
    char* memory = pool().take(whole);
    if (!memory) {
        void* fresh = nullptr;
        if (posix_memalign(&fresh, line, whole)) return nullptr;
        memory = static_cast<char*>(fresh);
        if (whole >= 2 * huge) {  // as NumPy does
            const uintptr_t first = reinterpret_cast<uintptr_t>(memory);
            const uintptr_t start = (first + huge - 1) / huge * huge, end = first + whole;
            madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
        }
    }
    size_of(memory + line) = whole - line;
    return memory + line;
}

void release(void*, void* block, size_t) {
    if (!block) return;
    const size_t size = size_of(block);
    if (size < least) {
        free(static_cast<char*>(block) - small_head);
        return;
    }
    char* const memory = static_cast<char*>(block) - line;
    if (!pool().keep(memory, size + line)) free(memory);
}

void* allocate_zeros(void* context, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
    void* const block = allocate(context, bytes);
    return block ? memset(block, 0, bytes) : nullptr;
}

void* reallocate(void* context, void* block, size_t size) {
    if (!block) return allocate(context, size);
    void* const fresh = allocate(context, size);
    if (!fresh) return nullptr;
    const size_t had = size_of(block);
    memcpy(fresh, block, had < size ? had : size);
    release(context, block, 0);
    return fresh;
}

Handler handler = {"gradhook", 1,
                   {nullptr, allocate, allocate_zeros, reallocate, release}};
_object* capsule;
_object* (*set_handler)(_object*);

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// numpy: the table of NumPy's C interface. With Python's lock held.
void gradhook_use_numpy(void** numpy) {
    set_handler = reinterpret_cast<_object* (*)(_object*)>(numpy[304]);  // PyDataMem_SetHandler
    capsule = static_cast<_object*>(PyCapsule_New(&handler, "mem_handler", nullptr));
}

// callable(*args), with NumPy's memory from here meanwhile. With Python's lock held.
_object* gradhook_with_buffers(_object* callable, _object* args) {
    _object* const before = set_handler(capsule);
    if (!before) return nullptr;
    _object* const made = PyObject_Call(callable, args, nullptr);
    _object *type, *value, *traceback;  // of what was raised
    PyErr_Fetch(&type, &value, &traceback);
    _object* const ours = set_handler(before);
    Py_DecRef(before);
    if (ours) Py_DecRef(ours);
    PyErr_Restore(type, value, traceback);
    return made;
}

// Everything that NumPy allocates from now on in this context comes from here.
_object* gradhook_always() {
    return set_handler(capsule);
}

void gradhook_buffers(long long* hits, long long* misses, long long* held, long long* limit) {
    const std::lock_guard<std::mutex> lock(pool().guard);
    *hits = pool().hits;
    *misses = pool().misses;
    *held = static_cast<long long>(pool().held);
    *limit = static_cast<long long>(pool().limit);
}

// How many bytes are kept at most; what is too much now is given back.
void gradhook_limit_buffers(long long limit) {
    const std::lock_guard<std::mutex> lock(pool().guard);
    pool().limit = static_cast<size_t>(limit);
    pool().shrink(pool().limit);
}

void gradhook_empty_buffers() {
    const std::lock_guard<std::mutex> lock(pool().guard);
    pool().shrink(0);
}
}
