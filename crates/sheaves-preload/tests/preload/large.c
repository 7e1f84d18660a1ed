// One thread that replaces large blocks gets pages that it has used before.
#include <stdint.h>
#include <sys/resource.h>

#include "check.h"

enum { LIVE = 20, WARM = 100, ROUNDS = 300, PAGE_BYTES = 4096 };

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

int main(void) {
    static char *blocks[LIVE];
    uint64_t random = 88172645463325252u;
    long pages = 0, before = 0;
    for (int round = 0; round < ROUNDS; round++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        size_t place = random % LIVE, bytes = (5u << 20) + (random >> 20) % (20u << 20);
        free(blocks[place]);
        CHECK((blocks[place] = malloc(bytes)) != NULL);
        if (round == WARM) pages = 0, before = faults();
        for (size_t offset = 0; offset < bytes; offset += PAGE_BYTES, pages++) {
            ((volatile char *)blocks[place])[offset] = 1;
        }
    }
    CHECK((faults() - before) * 10 < pages);
    for (int i = 0; i < LIVE; i++) free(blocks[i]);
    return 0;
}
