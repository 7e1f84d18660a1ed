// One thread that fills and empties its memory again and again gets pages that it has used before.
// What is free must go back once: the last free may be the last call.
#include <sys/resource.h>

#include "check.h"

enum { BLOCKS_MAX = 24 * 1024, WARM = 3, ROUNDS = 8, PAGE_BYTES = 4096 };

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

static void fill_and_empty(int blocks, size_t bytes) {
    static char *block[BLOCKS_MAX];
    for (int i = 0; i < blocks; i++) {
        CHECK((block[i] = malloc(bytes)) != NULL);
        for (size_t place = 0; place < bytes; place += PAGE_BYTES) block[i][place] = 1;
        block[i][bytes - 1] = 1;
    }
    for (int i = 0; i < blocks; i++) free(block[i]);
}

static void phases(int blocks, size_t bytes) {
    const long pages = blocks * bytes / PAGE_BYTES;
    fill_and_empty(blocks, bytes);
    CHECK(resident_pages() < pages / 2);
    for (int round = 1; round < WARM; round++) fill_and_empty(blocks, bytes);
    long before = faults();
    for (int round = WARM; round < ROUNDS; round++) fill_and_empty(blocks, bytes);
    CHECK((faults() - before) * 10 < pages * (ROUNDS - WARM));
}

// Argument: small or large, what the blocks are.
int main(int argc, char **argument) {
    CHECK(argc == 2);
    if (*argument[1] == 's') {
        phases(BLOCKS_MAX, 3000);
    } else {
        phases(60, 3 << 20);
    }
    return 0;
}
