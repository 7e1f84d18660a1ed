// A module in C++ of a program that does not link the C++ runtime.
#include <pthread.h>

#include <cstdint>
#include <new>

static volatile std::size_t huge = SIZE_MAX / 2;

static void *allocate(void *) {
    ::operator delete(::operator new(1, std::nothrow));
    return nullptr;
}

// Runs under the loader's lock.
__attribute__((constructor)) static void wait_for_a_thread() {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, allocate, nullptr) == 0) pthread_join(thread, nullptr);
}

extern "C" int module() {
    if (::operator new(huge, std::nothrow) || ::operator new[](huge, std::nothrow)) return 1;
    try {
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc &) {
        delete new int;
        return 0;
    }
    return 2;
}
