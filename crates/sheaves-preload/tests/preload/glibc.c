/* What a program can see of malloc where the standards leave a choice. The test compares what this
 * prints on glibc's heap with what it prints on ours. */
#define _GNU_SOURCE
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdint.h>

#include "check.h"

void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t align, size_t size);
struct mallinfo __libc_mallinfo(void);

/* Values that the compiler must not know. */
static volatile size_t zero = 0;

static void print_null(const char *call, size_t argument, const void *block)
{
    printf("%s %zu: %s, errno %d\n", call, argument, block ? "a block" : "null", errno);
}

static void reallocations(void)
{
    static const size_t sizes[] = {0, 1, 100, 5000, 300000, 5000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        errno = 77;
        print_null("realloc to 0 of", size, realloc(malloc(size), zero));
        print_null("__libc_realloc to 0 of", size, __libc_realloc(malloc(size), zero));
        print_null("reallocarray to 0 * 8 of", size, reallocarray(malloc(size), zero, 8));
        print_null("reallocarray to 8 * 0 of", size, reallocarray(malloc(size), 8, zero));
    }
    print_null("realloc of null to", 0, realloc(NULL, zero));
    print_null("reallocarray of null to", 0, reallocarray(NULL, zero, zero));
    /* The blocks are free. */
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100000; i++)
        CHECK(!realloc(malloc(100), zero));
    struct mallinfo2 after = mallinfo2();
    printf("%s\n", after.uordblks < before.uordblks + 100000 ? "freed" : "lost");
}

/* Prints whether a block is aligned as glibc aligns it: to the next power of two. */
static void print_aligned(const char *call, size_t align, void *block)
{
    size_t next = 16;
    while (next < align && next <= SIZE_MAX / 2)
        next *= 2;
    print_null(call, align, block);
    CHECK((uintptr_t)block % next == 0);
    free(block);
}

static void alignments(void)
{
    static const size_t aligns[] = {
        0, 1, 2, 3, 8, 16, 17, 24, 32, 33, 48, 63, 100, 1000, 4096, 4097, 65537,
        SIZE_MAX / 4, SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 2, SIZE_MAX,
    };
    /* From glibc 2.38 on it refuses what is no power of two. */
    int rounds = atof(gnu_get_libc_version()) < 2.375;
    for (size_t i = 0; i < sizeof aligns / sizeof *aligns; i++) {
        size_t align = aligns[i];
        void *place = NULL;
        errno = 0;
        print_aligned("memalign", align, memalign(align, 100));
        errno = 0;
        print_aligned("__libc_memalign", align, __libc_memalign(align, 100));
        errno = 0;
        if (rounds)
            print_aligned("aligned_alloc", align, aligned_alloc(align, 100));
        int status = posix_memalign(&place, align, 100);
        printf("posix_memalign %zu: %d, %s\n", align, status, place ? "a block" : "null");
        free(place);
    }
}

static void statistics(void)
{
    errno = 77;
    printf("malloc_info(1): %d, errno %d\n", malloc_info(1, stdout), errno);
    printf("malloc_info(-1): %d, errno %d\n", malloc_info(-1, stdout), errno);
    free(malloc(64 << 20));
    print_null("valloc", 0, valloc(0));
    print_null("pvalloc", 0, pvalloc(0));
    printf("pvalloc gives %s\n", malloc_usable_size(pvalloc(1)) >= 4096 ? "a page" : "less");
    void *mapped = malloc(64 << 20);
    printf("__libc_mallinfo: %d mapped\n", __libc_mallinfo().hblks);
    free(mapped);
    printf("__libc_mallinfo: %d mapped\n", __libc_mallinfo().hblks);
}

int main(void)
{
    reallocations();
    alignments();
    statistics();
    return 0;
}
