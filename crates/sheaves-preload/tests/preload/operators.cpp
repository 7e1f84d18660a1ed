// Every form of operator new and delete, and their behaviour when memory is out.
#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static volatile std::size_t huge = SIZE_MAX / 2;

struct alignas(256) Wide {
    char bytes[300];
};

static int handled;

static void handler() {
    // The second call removes the handler: without one operator new throws.
    if (++handled == 2) std::set_new_handler(nullptr);
}

template <class Call>
static bool throws(Call call) {
    try {
        call();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static bool is_aligned(const void *block, std::size_t align) {
    return reinterpret_cast<std::uintptr_t>(block) % align == 0;
}

static void forms() {
    const std::align_val_t align{512};
    for (std::size_t size : {0, 1, 100, 5000, 70000, 3 << 20}) {
        operator delete(operator new(size));
        operator delete(operator new(size), size);
        operator delete[](operator new[](size));
        operator delete[](operator new[](size), size);
        operator delete(operator new(size, std::nothrow), std::nothrow);
        operator delete[](operator new[](size, std::nothrow), std::nothrow);
        void *block = operator new(size, align);
        CHECK(is_aligned(block, 512));
        operator delete(block, align);
        block = operator new[](size, align);
        CHECK(is_aligned(block, 512));
        operator delete[](block, size, align);
        operator delete(operator new(size, align), size, align);
        operator delete[](operator new[](size, align), align);
        block = operator new(size, align, std::nothrow);
        CHECK(is_aligned(block, 512));
        operator delete(block, align, std::nothrow);
        block = operator new[](size, align, std::nothrow);
        CHECK(is_aligned(block, 512));
        operator delete[](block, align, std::nothrow);
    }
    operator delete(nullptr);
    auto wide = std::make_unique<Wide[]>(10);
    CHECK(is_aligned(wide.get(), 256));
    // One form deletes what another one has made: all use one heap.
    free(operator new(10));
    operator delete(malloc(10));
}

static void shortage() {
    const std::align_val_t align{512};
    CHECK(throws([] { operator delete(operator new(huge)); }));
    CHECK(throws([] { operator delete[](operator new[](huge)); }));
    CHECK(throws([&] { operator delete(operator new(huge, align), align); }));
    CHECK(throws([&] { operator delete[](operator new[](huge, align), align); }));
    CHECK(throws([] { std::vector<char> bytes(huge - 1); }));
    CHECK(throws([] { delete[] new char[huge]; }));
    CHECK(operator new(huge, std::nothrow) == nullptr);
    CHECK(operator new[](huge, std::nothrow) == nullptr);
    CHECK(operator new(huge, align, std::nothrow) == nullptr);
    CHECK(operator new[](huge, align, std::nothrow) == nullptr);
    // Rounded up to the alignment, this is 0.
    const volatile std::size_t all = SIZE_MAX;
    CHECK(throws([&] { operator delete(operator new(all, align), align); }));
    CHECK(throws([&] { operator delete[](operator new[](all, align), align); }));
    CHECK(operator new(all, align, std::nothrow) == nullptr);
    CHECK(operator new[](all, align, std::nothrow) == nullptr);

    std::set_new_handler(handler);
    CHECK(throws([] { operator delete(operator new(huge)); }));
    CHECK(handled == 2 && std::get_new_handler() == nullptr);
    handled = 0;
    std::set_new_handler(handler);
    CHECK(operator new(huge, std::nothrow) == nullptr);
    CHECK(handled == 2);
    handled = 0;
    std::set_new_handler(handler);
    CHECK(throws([&] { operator delete(operator new(huge, align), align); }));
    CHECK(handled == 2);
}

struct AtEnd {
    std::string text = "longer than what a string holds without memory of its own";
    ~AtEnd() {
        // Allocates while the thread ends.
        std::vector<std::string> many(100, text);
        CHECK(many.back() == text);
    }
};

static thread_local AtEnd at_end;

static void threads() {
    for (int round = 0; round < 20; round++) {
        std::vector<std::thread> running;
        for (int i = 0; i < 8; i++)
            running.emplace_back([] {
                std::map<int, std::string> map;
                for (int n = 0; n < 500; n++) map[n * 7919 % 1000] = at_end.text;
                CHECK(map.size() == 500);
            });
        for (auto &thread : running) thread.join();
    }
}

int main() {
    forms();
    shortage();
    threads();
    return 0;
}
