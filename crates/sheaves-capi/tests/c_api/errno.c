/* errno after frees that find no memory for a sheaf. */
#include <sheaves.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            printf("%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno);  \
            _Exit(1);                                                                 \
        }                                                                             \
    } while (0)

/* Each cache needs a sheaf of its own for its first free, so the memory for them runs out. */
enum { CACHES = 500, OBJECTS = 3, UNTOUCHED = 4711 };

static sheaves_cache *caches[CACHES];
static void *objects[CACHES][OBJECTS];

/* Makes every new mapping fail. */
static void limit_address_space(void)
{
    struct rlimit limit = { 4096, RLIM_INFINITY };
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(void)
{
    for (int i = 0; i < CACHES; i++) {
        caches[i] = sheaves_cache_create("errno", 64, 0, 0, NULL);
        CHECK(caches[i]);
        for (int n = 0; n < OBJECTS; n++) {
            objects[i][n] = sheaves_cache_alloc(caches[i]);
            CHECK(objects[i][n]);
        }
    }
    limit_address_space();
    for (int i = 0; i < CACHES; i++) {
        errno = UNTOUCHED;
        sheaves_cache_free(caches[i], objects[i][0]);
        CHECK(errno == UNTOUCHED);
        sheaves_cache_free_bulk(caches[i], &objects[i][1], 1);
        CHECK(errno == UNTOUCHED);
        sheaves_cache_free_rcu(caches[i], objects[i][2]);
        CHECK(errno == UNTOUCHED);
    }
    puts("ok");
    return 0;
}
