// What the tests of the C++ headers share.
#pragma once

#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

#define CHECK(...)                                                            \
    do {                                                                      \
        if (!(__VA_ARGS__)) {                                                 \
            std::printf("%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__);     \
            std::fflush(stdout);                                              \
            std::_Exit(1);                                                    \
        }                                                                     \
    } while (0)
