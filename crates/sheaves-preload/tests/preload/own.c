// A program with a malloc of its own, whose libraries extend its blocks by `reallocarray`: that is
// not of this heap, and has to call the program's `realloc`.
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "check.h"

static char pool[1 << 16] __attribute__((aligned(16)));
static size_t used;
// Volatile: gcc does not expect calls from libc.
static volatile int reallocs;

static int is_in_pool(const void *block) {
    return (uintptr_t)block - (uintptr_t)pool < sizeof pool;
}

void *malloc(size_t size) {
    char *block = pool + used;

    used += (size + 31) & ~(size_t)15;
    if (used > sizeof pool)
        _Exit(2);
    memcpy(block, &size, sizeof size);
    return block + 16;
}

void free(void *block) {
    if (block && !is_in_pool(block))
        _Exit(3);
}

void *calloc(size_t count, size_t size) {
    // Fresh blocks only.
    return malloc(count * size);
}

void *realloc(void *block, size_t size) {
    void *larger;
    size_t old = 0;

    // As many a program, it adds to the size without a look.
    reallocs++;
    larger = malloc(size);
    if (block)
        memcpy(&old, (char *)block - 16, sizeof old);
    return memcpy(larger, block ? block : pool, old < size ? old : size);
}

int main(void) {
    volatile size_t half = SIZE_MAX / 2;
    char *block = malloc(10);

    strcpy(block, "contents");
    block = reallocarray(block, 100, 10);
    CHECK(reallocs == 1 && is_in_pool(block) && strcmp(block, "contents") == 0);
    CHECK(is_in_pool(reallocarray(NULL, 3, 5)) && reallocs == 2);
    CHECK(!reallocarray(block, half, 3) && errno == ENOMEM);
    CHECK(!reallocarray(block, half + 1, 2) && errno == ENOMEM && reallocs == 2);
    free(block);
    return 0;
}
