/* Refused calls leak nothing: a head outside its block, a cache without memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "sheaves.h"

#define CHECK(is)                                                        \
    do {                                                                 \
        if (!(is)) {                                                     \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #is); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

/* More than the maximum number of caches. */
#define ATTEMPTS 2000

static void heads(void)
{
    for (size_t bytes = 1; bytes <= 64; bytes++) {
        char *block = sheaves_calloc(1, bytes);
        CHECK(block);
        size_t usable = sheaves_usable_size(block);
        size_t first_outside = usable < sizeof(struct sheaves_head)
            ? 0 : usable - sizeof(struct sheaves_head) + 8;
        for (size_t offset = first_outside; offset <= usable + 16; offset += 8) {
            struct sheaves_head *head = (struct sheaves_head *)(void *)(block + offset);
            CHECK(sheaves_free_rcu_head(block, head) == EINVAL);
        }
        sheaves_free(block);
    }
    CHECK(sheaves_rcu_barrier() == 0);
}

static void caches(void)
{
    struct rlimit before, none;
    void *blocks = NULL;

    struct sheaves_cache *first = sheaves_cache_create("first", 40, 0, 0, NULL);
    CHECK(first);
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    none = before;
    none.rlim_cur = 4096;
    CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    /* Takes all memory, of every size that a handle may have. */
    for (size_t bytes = 256; bytes >= 8; bytes -= 8) {
        void **block;
        while ((block = sheaves_aligned_alloc(8, bytes))) {
            *block = blocks;
            blocks = block;
        }
    }
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        errno = 0;
        CHECK(!sheaves_cache_create("none", 40, 0, 0, NULL));
        CHECK(errno == ENOMEM);
    }
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    while (blocks) {
        void *next = *(void **)blocks;
        sheaves_free(blocks);
        blocks = next;
    }
    struct sheaves_cache *second = sheaves_cache_create("second", 40, 0, 0, NULL);
    CHECK(second);
    CHECK(sheaves_cache_destroy(second) == 0);
    CHECK(sheaves_cache_destroy(first) == 0);
}

int main(void)
{
    heads();
    caches();
    puts("ok");
    return 0;
}
