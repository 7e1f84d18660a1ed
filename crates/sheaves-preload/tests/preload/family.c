// The malloc family as C programs use it. With the argument "info": prints malloc_info.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

// Sizes that the compiler must not know.
static volatile size_t huge = SIZE_MAX;
static volatile size_t half = SIZE_MAX / 2 + 2;

static int is_aligned(const void *block, size_t align) {
    return (uintptr_t)block % align == 0;
}

static void sizes(void) {
    for (size_t size = 0; size < 70000; size = size + size / 16 + 1) {
        char *block = malloc(size);
        CHECK(block && is_aligned(block, 16));
        CHECK(malloc_usable_size(block) >= size);
        memset(block, 1, malloc_usable_size(block));
        char *zeros = calloc(size, 3);
        CHECK(zeros);
        for (size_t i = 0; i < 3 * size; i++) CHECK(zeros[i] == 0);
        block = realloc(block, 2 * size + 1);
        CHECK(block);
        for (size_t i = 0; i < size; i++) CHECK(block[i] == 1);
        free(block);
        free(zeros);
    }
    CHECK(malloc_usable_size(NULL) == 0);
    free(NULL);
    void *a = malloc(0), *b = malloc(0);
    CHECK(a && b && a != b);
    // Size 0 frees.
    CHECK(!realloc(a, 0));
    CHECK(!reallocarray(b, 0, 8));
}

static void overflow(void) {
    void *block = malloc(10);
    errno = 0;
    CHECK(!malloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!malloc(PTRDIFF_MAX + (size_t)1 + (huge - SIZE_MAX)) && errno == ENOMEM);
    errno = 0;
    CHECK(!calloc(half, 2) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(block, half, 2) && errno == ENOMEM);
    errno = 0;
    CHECK(!reallocarray(NULL, huge, huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!realloc(block, huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!pvalloc(huge) && errno == ENOMEM);
    errno = 0;
    CHECK(!valloc(huge) && errno == ENOMEM);
    block = reallocarray(block, 100, 7);
    CHECK(block && malloc_usable_size(block) >= 700);
    free(block);
}

static void alignments(void) {
    char here;
    void *untouched = &here, *place = untouched;
    errno = 77;
    CHECK(posix_memalign(&place, 3, 1) == EINVAL && place == untouched);
    CHECK(posix_memalign(&place, 4, 1) == EINVAL && place == untouched);
    CHECK(posix_memalign(&place, 0, 1) == EINVAL && place == untouched);
    CHECK(posix_memalign(&place, 24, 1) == EINVAL && place == untouched);
    CHECK(posix_memalign(&place, 64, huge) == ENOMEM && place == untouched);
    CHECK(posix_memalign(&place, huge / 2 + 1, 1) == ENOMEM && place == untouched);
    // POSIX: posix_memalign reports errors by its result only.
    CHECK(errno == 77);
    for (size_t align = 8; align <= (size_t)1 << 30; align *= 2) {
        CHECK(posix_memalign(&place, align, 100) == 0 && is_aligned(place, align));
        memset(place, 2, 100);
        free(place);
        place = aligned_alloc(align, align < 1 << 20 ? 3 * align : 5000);
        CHECK(place && is_aligned(place, align));
        memset(place, 2, 5000 < 3 * align ? 5000 : 3 * align);
        CHECK(malloc_usable_size(place) >= 24);
        place = realloc(place, 6000);
        CHECK(place && *(char *)place == 2);
        free(place);
        place = memalign(align, 1);
        CHECK(place && is_aligned(place, align));
        free(place);
    }
    place = aligned_alloc(48, 10);
    CHECK(is_aligned(place, 64));
    free(place);
    errno = 0;
    CHECK(!aligned_alloc(huge, 10) && errno == EINVAL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    place = valloc(10);
    CHECK(place && is_aligned(place, page));
    free(place);
    place = pvalloc(page + 1);
    CHECK(place && is_aligned(place, page) && malloc_usable_size(place) >= 2 * page);
    free(place);
}

// Large memory from calloc has no pages before it is used, in debug mode either.
static void untouched(void) {
    const size_t size = (size_t)1 << 30;
    struct rusage before, after;
    CHECK(getrusage(RUSAGE_SELF, &before) == 0);
    for (int round = 0; round < 3; round++) {
        char *block = calloc(size / 16, 16);
        CHECK(block && !block[0] && !block[size / 2] && !block[size - 1]);
        block[0] = block[size / 2] = block[size - 1] = 1;
        free(block);
    }
    CHECK(getrusage(RUSAGE_SELF, &after) == 0);
    CHECK(after.ru_maxrss - before.ru_maxrss < (200 << 10));
}

// free keeps errno, also when it returns memory to the kernel.
static void errno_is_kept(void) {
    static void *blocks[2000];
    const size_t sizes[] = {1, 100, 5000, 40000, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t count = sizes[i] > 1 << 20 ? 20 : 2000;
        for (size_t n = 0; n < count; n++) CHECK(blocks[n] = malloc(sizes[i]));
        for (size_t n = 0; n < count; n++) {
            errno = 1234;
            free(blocks[n]);
            CHECK(errno == 1234);
        }
    }
}

// What is free is part of the arena, also where the heap has next to nothing.
static void first_figures(void) {
    void *mapped = malloc(60 << 20);
    CHECK(mapped);
    memset(mapped, 1, 60 << 20);
    free(mapped);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.fordblks + after.uordblks <= after.arena);
}

static void figures(void) {
    struct mallinfo2 before = mallinfo2();
    // In hardened mode blocks from 64 KiB on may have mappings of their own.
    const size_t size = getenv("SHEAVES_DEBUG") || getenv("SHEAVES_HARDEN") ? 50000 : 500000;
    void *mapped = malloc(64 << 20), *middle = malloc(size);
    CHECK(mapped && middle);
    struct mallinfo2 with = mallinfo2();
    CHECK(with.hblks == before.hblks + 1 && with.hblkhd >= before.hblkhd + (64 << 20));
    CHECK(with.uordblks >= before.uordblks + size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    CHECK(mallinfo().hblks == (int)with.hblks);
#pragma GCC diagnostic pop
    free(mapped);
    free(middle);
    struct mallinfo2 after = mallinfo2();
    CHECK(after.hblks == before.hblks && after.hblkhd == before.hblkhd);
    CHECK(after.uordblks == before.uordblks);
    CHECK(malloc_info(1, stdout) == EINVAL);
    // The freed run can be returned to the kernel, once.
    CHECK(malloc_trim(0) == 1);
    CHECK(malloc_trim(0) == 0);
    CHECK(mallinfo2().keepcost == 0);
}

// Names of other allocators, with which programs ask for the bytes of a block.
static void others(void) {
    size_t (*malloc_size)(const void *block) = dlsym(RTLD_DEFAULT, "malloc_size");
    size_t (*nallocx)(size_t size, int flags) = dlsym(RTLD_DEFAULT, "nallocx");
    void (*sdallocx)(void *block, size_t size, int flags) = dlsym(RTLD_DEFAULT, "sdallocx");
    void (*libc_cfree)(void *block) = dlsym(RTLD_DEFAULT, "__libc_cfree");

    CHECK(malloc_size && nallocx && sdallocx && libc_cfree);

    for (size_t size = 1; size < 3000000; size = size + size / 8 + 1) {
        void *block = malloc(size);
        CHECK(malloc_size(block) == malloc_usable_size(block));
        CHECK(nallocx(size, 0) >= size && nallocx(size, 0) <= malloc_usable_size(block));
        sdallocx(block, size, 0);
        sdallocx(malloc(size), nallocx(size, 0), 0);
        CHECK(!posix_memalign(&block, 256, size));
        CHECK(nallocx(size, 8) >= size && nallocx(size, 8) <= malloc_usable_size(block));
        sdallocx(block, nallocx(size, 8), 8);
        CHECK(!posix_memalign(&block, 256, size));
        sdallocx(block, size, 8);
    }
    // Blocks of no bytes, also aligned ones that no size class serves.
    void (*free_aligned_sized)(void *, size_t, size_t) = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CHECK(free_aligned_sized);
    for (size_t align = 16; align <= 4 << 20; align *= 2) {
        void *block = aligned_alloc(align, 0);
        CHECK(block);
        free_aligned_sized(block, align, 0);
    }
    CHECK(nallocx(huge, 0) == 0 && malloc_size(NULL) == 0);
    libc_cfree(malloc(10));
}

int main(int count, char **arguments) {
    if (count > 1 && !strcmp(arguments[1], "info")) {
        free(malloc(1000));
        CHECK(malloc_info(0, stdout) == 0);
        malloc_stats();
        return 0;
    }
    first_figures();
    sizes();
    overflow();
    alignments();
    untouched();
    errno_is_kept();
    others();
    figures();
    return 0;
}
