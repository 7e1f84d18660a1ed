// Allocates known amounts, each in a function of its own.
#include <cstdlib>
#include <memory>
#include <new>

#define NOINLINE __attribute__((noinline))

static void *kept[20000];
static int count;

static NOINLINE void keep(void *block)
{
    kept[count++] = block;
    __asm__ volatile("" : : "r"(kept) : "memory");
}

static NOINLINE void site_malloc() { keep(std::malloc(1000)); }
static NOINLINE void site_calloc() { keep(std::calloc(10, 100)); }
static NOINLINE void site_realloc() { keep(std::realloc(std::malloc(100), 1000)); }
static NOINLINE void site_new() { keep(::operator new(1000)); }
static NOINLINE void site_array() { keep(new char[1000]); }
static NOINLINE void site_aligned() { keep(::operator new(1024, std::align_val_t(128))); }
static NOINLINE void site_posix()
{
    void *block = nullptr;
    if (posix_memalign(&block, 64, 1000) == 0)
        keep(block);
}

static NOINLINE void outer()
{
    for (int round = 0; round < 2000; round++) {
        site_malloc();
        site_calloc();
        site_realloc();
        site_new();
        site_array();
        site_aligned();
        site_posix();
        std::free(std::malloc(1000));
    }
    __asm__ volatile("" : : : "memory");
}

int main()
{
    outer();
    return 0;
}
