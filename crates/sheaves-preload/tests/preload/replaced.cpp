// Programs that replace some operators of C++. The library's definitions of the other forms have to
// call the program's, as the standard says. Blocks have a header in front, so that deleting a block
// of another heap ends the program.
#include <dlfcn.h>

#include <cstdint>
#include <new>

#include "check.h"

namespace {

struct alignas(16) Header {
    std::uintptr_t seal;
};

constexpr std::uintptr_t SEAL = 0x5ea1;
int alive;

void *make(std::size_t size) {
    auto *header = static_cast<Header *>(std::malloc(sizeof(Header) + size));
    if (!header) throw std::bad_alloc();
    header->seal = SEAL;
    alive++;
    return header + 1;
}

void destroy(void *block) {
    if (!block) return;
    auto *header = static_cast<Header *>(block) - 1;
    CHECK(header->seal == SEAL);
    header->seal = 0;
    alive--;
    std::free(header);
}

volatile std::size_t huge = SIZE_MAX / 2;

template <class Block>
Block *checked(Block *block) {
    CHECK(block && alive == 1);
    return block;
}

}  // namespace

#if defined(PLAIN)
void *operator new(std::size_t size) { return make(size); }
void operator delete(void *block) noexcept { destroy(block); }
#endif
#if defined(ARRAY)
void *operator new[](std::size_t size) { return make(size); }
void operator delete[](void *block) noexcept { destroy(block); }
#endif
#if defined(ALIGNED)
// Not aligned: only the header is checked.
void *operator new(std::size_t size, std::align_val_t) { return make(size); }
void operator delete(void *block, std::align_val_t) noexcept { destroy(block); }
#endif

#if defined(PLAIN)
static void single() {
    operator delete(checked(operator new(10)));
    operator delete(checked(operator new(10)), std::size_t{10});
    operator delete(checked(operator new(10, std::nothrow)), std::nothrow);
    CHECK(operator new(huge, std::nothrow) == nullptr);
}
#endif

#if defined(PLAIN) || defined(ARRAY)
static void arrays() {
    operator delete[](checked(operator new[](10)));
    operator delete[](checked(operator new[](10)), std::size_t{10});
    operator delete[](checked(operator new[](10, std::nothrow)), std::nothrow);
    CHECK(operator new[](huge, std::nothrow) == nullptr);
    delete[] checked(new char[100]);
}
#endif

#if defined(ALIGNED)
static void aligned() {
    const std::align_val_t align{64};
    operator delete(checked(operator new(10, align)), align);
    operator delete(checked(operator new(10, align)), std::size_t{10}, align);
    operator delete(checked(operator new(10, align, std::nothrow)), align, std::nothrow);
    operator delete[](checked(operator new[](10, align)), align);
    operator delete[](checked(operator new[](10, align)), std::size_t{10}, align);
    operator delete[](checked(operator new[](10, align, std::nothrow)), align, std::nothrow);
    CHECK(operator new(huge, align, std::nothrow) == nullptr);
    CHECK(operator new[](huge, align, std::nothrow) == nullptr);
}
#endif

// A module whose constructor waits under the loader's lock for a thread that calls `nothrow` forms.
static void load(const char *path) {
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(object != nullptr);
    auto module = reinterpret_cast<int (*)()>(dlsym(object, "module"));
    CHECK(module != nullptr && module() == 0);
}

int main(int count, char **words) {
    CHECK(count == 2);
    load(words[1]);
#if defined(PLAIN)
    single();
#endif
#if defined(PLAIN) || defined(ARRAY)
    arrays();
#endif
#if defined(ALIGNED)
    aligned();
#endif
    CHECK(alive == 0);
    return 0;
}
