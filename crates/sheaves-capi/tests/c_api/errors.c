/* Arguments that are recognised as wrong, and functions that tell so by their result. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sheaves.h"

#define CHECK(is)                                                        \
    do {                                                                 \
        if (!(is)) {                                                     \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #is); \
            exit(1);                                                     \
        }                                                                \
    } while (0)

static void construct(void *object)
{
    (void)object;
}

static void call(struct sheaves_head *head)
{
    (void)head;
}

static void caches(void)
{
    struct sheaves_cache_statistics whole;
    struct {
        struct sheaves_cache_statistics known;
        size_t more[2];
    } newer;
    sheaves_cache *cache;

    errno = 0;
    CHECK(!sheaves_cache_create("both", 64, 0, SHEAVES_CACHE_ZERO, construct) && errno == EINVAL);
    cache = sheaves_cache_create("sizes", 64, 0, 0, construct);
    CHECK(cache && sheaves_cache_get_statistics(cache, NULL, sizeof whole) == EINVAL);
    CHECK(sheaves_cache_get_statistics(cache, &whole, 0) == EINVAL);
    /* An older program has fewer members, a newer one more. */
    memset(&whole, 0xff, sizeof whole);
    CHECK(sheaves_cache_get_statistics(cache, &whole, sizeof whole.object_bytes) == 0);
    CHECK(whole.object_bytes == 64 && whole.stride_bytes == SIZE_MAX);
    memset(&newer, 0xff, sizeof newer);
    CHECK(sheaves_cache_get_statistics(cache, &newer.known, sizeof newer) == 0);
    CHECK(newer.known.stride_bytes >= 64 && newer.more[0] == 0 && newer.more[1] == 0);
    CHECK(sheaves_cache_destroy(cache) == 0);
}

static void heads(void)
{
    struct sheaves_head heads[2] = { { { 0, 0 } }, { { 0, 0 } } };
    struct sheaves_head *between = (struct sheaves_head *)(void *)((char *)heads + 4);

    CHECK(sheaves_call_rcu(NULL, call) == EINVAL && sheaves_call_rcu(heads, NULL) == EINVAL);
    CHECK(sheaves_call_rcu(between, call) == EINVAL);
    CHECK(sheaves_call_rcu_hurry(between, call) == EINVAL);
    sheaves_free_rcu(NULL);
    CHECK(sheaves_free_rcu_head(NULL, heads) == 0 && sheaves_free_rcu_head(NULL, NULL) == 0);
}

struct owner {
    struct sheaves_head head;
    sheaves_srcu *domain;
};

static void destroy(struct sheaves_head *head)
{
    sheaves_srcu_destroy(((struct owner *)head)->domain);
}

/* A domain that is destroyed in a callback of its own stays as it is; another one ends there. */
static void domains(void)
{
    struct sheaves_head heads[2] = { { { 0, 0 } }, { { 0, 0 } } };
    struct sheaves_head *between = (struct sheaves_head *)(void *)((char *)heads + 4);
    sheaves_srcu *domain = sheaves_srcu_create();
    struct owner own = { { { 0, 0 } }, domain }, other = { { { 0, 0 } }, sheaves_srcu_create() };
    sheaves_srcu_section section;

    CHECK(domain && other.domain && sheaves_srcu_call(domain, between, call) == EINVAL);
    CHECK(sheaves_srcu_call(domain, &own.head, destroy) == 0);
    CHECK(sheaves_srcu_call(domain, &other.head, destroy) == 0);
    CHECK(sheaves_srcu_barrier(domain) == 0);
    section = sheaves_srcu_read_lock(domain);
    CHECK(sheaves_srcu_call(domain, heads, call) == 0);
    sheaves_srcu_read_unlock(domain, section);
    CHECK(sheaves_srcu_synchronize(domain) == 0);
    sheaves_rcu_read_lock();
    sheaves_srcu_destroy(domain);
    sheaves_rcu_read_unlock();
    sheaves_srcu_destroy(domain);
    sheaves_srcu_destroy(NULL);
}

static void memory(void)
{
    void *block = NULL, *same;

    errno = 0;
    CHECK(sheaves_posix_memalign(&block, 24, 1) == EINVAL);
    CHECK(sheaves_posix_memalign(&block, 4, 1) == EINVAL);
    CHECK(sheaves_posix_memalign(NULL, 16, 1) == EINVAL);
    CHECK(sheaves_posix_memalign(&block, 64, SIZE_MAX / 2) == ENOMEM && !block && errno == 0);
    CHECK(sheaves_posix_memalign(&block, 4096, 100) == 0 && (uintptr_t)block % 4096 == 0);
    sheaves_free_aligned_sized(block, 4096, 100);

    block = sheaves_reallocarray(NULL, 10, 10);
    CHECK(block && sheaves_usable_size(block) >= 100);
    memset(block, 'x', 100);
    same = block;
    CHECK(!sheaves_reallocarray(same, SIZE_MAX / 2, 3) && errno == ENOMEM);
    block = sheaves_reallocarray(same, 100, 100);
    CHECK(block && ((char *)block)[99] == 'x');
    sheaves_free_sized(block, 10000);
    sheaves_free_sized(NULL, 7);
    sheaves_free_aligned_sized(NULL, 64, 7);
}

int main(void)
{
    caches();
    heads();
    domains();
    memory();
    CHECK(sheaves_rcu_barrier() == 0);
    puts("ok");
    return 0;
}
