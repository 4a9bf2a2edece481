// The threads that native libraries divide their work among.
// No OpenMP runtime: its threads spin beside those of BLAS, and it hangs after a fork.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace {

using Task = void (*)(void* context, long long part);

// The work of one call: parts are taken in any order, each by one thread.
struct Work {
    Task task;
    void* context;
    long long parts;
};

struct Threads {
    std::mutex calls;  // one caller at a time; another works alone
    std::mutex guard;
    std::condition_variable wake, done;
    Work work{};
    std::atomic<long long> next{0};
    long long number = 0;  // of the current work
    int started = 0, wanted = 0, joined = 0;

    void take_parts(const Work& of) {
        for (long long part; (part = next.fetch_add(1)) < of.parts;) of.task(of.context, part);
    }

    void serve() {
        long long seen = 0;
        std::unique_lock<std::mutex> lock(guard);
        for (;;) {
            wake.wait(lock, [&] { return number != seen && wanted > 0; });
            seen = number;
            --wanted;
            const Work mine = work;
            lock.unlock();
            take_parts(mine);
            lock.lock();
            if (--joined == 0) done.notify_one();
        }
    }

    // Starts threads until there are so many; fewer where the system has no more.
    void start(int count) {
        sigset_t others, before;
        sigfillset(&others);  // signals are the main thread's, but for a thread's own faults
        for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
            sigdelset(&others, own);
        pthread_sigmask(SIG_SETMASK, &others, &before);
        try {
            for (; started < count; ++started) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    void run(const Work& given, int helpers) {
        {
            std::lock_guard<std::mutex> lock(guard);
            start(helpers);
            work = given;
            next = 0;
            ++number;
            wanted = joined = helpers < started ? helpers : started;
        }
        wake.notify_all();
        take_parts(given);
        std::unique_lock<std::mutex> lock(guard);
        joined -= wanted;  // those that never woke have nothing left to do
        wanted = 0;
        done.wait(lock, [&] { return joined == 0; });
    }
};

std::atomic<int> most{1};
std::atomic<Threads*> threads{nullptr};

// A child has only the thread that forked: it starts its own.
void forget() { threads = nullptr; }
[[maybe_unused]] const int forgets = pthread_atfork(nullptr, nullptr, forget);

Threads& all_threads() {
    Threads* found = threads;
    if (!found) {
        Threads* fresh = new Threads;
        if (threads.compare_exchange_strong(found, fresh)) return *fresh;
        delete fresh;
    }
    return *found;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// Calls task(context, part) for every part below `parts`.
void gradhook_run(Task task, void* context, long long parts) {
    const long long helpers = (most < parts ? most.load() : parts) - 1;
    if (helpers > 0) {
        Threads& pool = all_threads();
        std::unique_lock<std::mutex> alone(pool.calls, std::try_to_lock);
        if (alone.owns_lock()) {
            pool.run(Work{task, context, parts}, static_cast<int>(helpers));
            return;
        }
    }
    for (long long part = 0; part < parts; ++part) task(context, part);
}

void gradhook_set_threads(int count) { most = count; }

int gradhook_get_threads() { return most; }
}
