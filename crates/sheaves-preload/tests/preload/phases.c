// One thread that fills and empties its memory again and again gets pages that it has used before.
// What is free must go back once: the last free may be the last call.
#include <sys/resource.h>

#include "check.h"

enum { BLOCKS = 24 * 1024, BYTES = 3000, WARM = 3, ROUNDS = 8, PAGE_BYTES = 4096 };

static long faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

static long resident_pages(void) {
    long all, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL);
    CHECK(fscanf(file, "%ld %ld", &all, &resident) == 2);
    CHECK(fclose(file) == 0);
    return resident;
}

static void fill_and_empty(void) {
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        CHECK((blocks[i] = malloc(BYTES)) != NULL);
        blocks[i][0] = blocks[i][BYTES - 1] = 1;
    }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

int main(void) {
    const long pages = (long)BLOCKS * BYTES / PAGE_BYTES;
    fill_and_empty();
    CHECK(resident_pages() < pages / 2);
    for (int round = 1; round < WARM; round++) fill_and_empty();
    long before = faults();
    for (int round = WARM; round < ROUNDS; round++) fill_and_empty();
    CHECK((faults() - before) * 10 < pages * (ROUNDS - WARM));
    return 0;
}
