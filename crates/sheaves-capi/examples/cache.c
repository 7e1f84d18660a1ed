/* A cache of equal objects: constructed once, allocated one by one and in bulk, freed for
 * readers. */
#include <assert.h>
#include <stdio.h>

#include "sheaves.h"

struct session {
    int locks;
    char name[40];
};

static void construct(void *object)
{
    ((struct session *)object)->locks = 7;
}

int main(void)
{
    sheaves_cache *sessions;
    struct session *one;
    void *many[100];

    sessions = sheaves_cache_create("session", sizeof(struct session), 0, 0, construct);
    assert(sessions);
    one = sheaves_cache_alloc(sessions);
    assert(one && one->locks == 7);
    assert(sheaves_cache_alloc_bulk(sessions, many, 100) == 100);
    /* Objects are in use, so the cache is not destroyed. */
    assert(sheaves_cache_destroy(sessions) != 0);
    assert(sheaves_cache_free_bulk(sessions, many, 100) == 0);
    /* Readers may still use this one. */
    sheaves_cache_free_rcu(sessions, one);
    assert(sheaves_cache_destroy(sessions) == 0);
    puts("ok");
    return 0;
}
