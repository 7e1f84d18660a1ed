/* A program that limits its own address space when it is running, as batch systems and servers do.
   What the heap has reserved by then must not be in its way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

#define LIMIT ((rlim_t)1 << 30)
#define BLOCK ((size_t)100 << 20)

/* Bytes of address space that this process has. */
static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages * 4096;
}

static void *allocate(void *unused)
{
    (void)unused;
    for (size_t size = 16; size < 100000; size += 1000) {
        char *block = malloc(size);
        CHECK(block != NULL);
        memset(block, 1, size);
        free(block);
    }
    return NULL;
}

int main(void)
{
    /* The program, libc and the object itself are some MiB of it. */
    CHECK(address_space() < (size_t)64 << 20);
    struct rlimit limit = {LIMIT, LIMIT};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    char *block = calloc(1, BLOCK);
    CHECK(block != NULL);
    block[BLOCK - 1] = 1;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, allocate, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    allocate(NULL);
    free(block);
    return 0;
}
