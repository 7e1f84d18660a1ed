/* realloc to a smaller size in place: what is not used any more goes back to the kernel. To a
 * larger one: nothing does, and the more there is, the longer no byte is copied. */
#define _GNU_SOURCE
#include <malloc.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define KEPT ((size_t)64 << 10)

/* How many bytes of whole pages of a range are in memory. */
static size_t resident(char *from, char *to)
{
    static unsigned char pages[1 << 16];
    size_t page = sysconf(_SC_PAGESIZE), start = ((size_t)from + page - 1) / page * page, count = 0;
    size_t all = (size_t)to / page * page - start;
    CHECK((size_t)to > start && mincore((void *)start, all, pages) == 0);
    for (size_t i = 0; i < all / page; i++)
        count += (pages[i] & 1) * page;
    return count;
}

static void fill(char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        block[i] = (char)(i * 7 + 1);
}

static void is_filled(const char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        CHECK(block[i] == (char)(i * 7 + 1));
}

/* A block of a size class keeps its place. */
static void shorten(size_t before, size_t after)
{
    char *block = malloc(before);
    size_t usable = malloc_usable_size(block);
    CHECK(block != NULL && usable >= before);
    fill(block, usable);
    CHECK(resident(block, block + usable) + 8192 >= usable);
    CHECK(realloc(block, after) == block);
    is_filled(block, after);
    /* It still has all of its bytes. */
    CHECK(malloc_usable_size(block) == usable);
    size_t tail = resident(block + after, block + usable);
    CHECK(usable - after >= KEPT + 8192 ? tail == 0 : tail + 8192 >= usable - after);
    fill(block + after, usable - after);
    CHECK(realloc(block, before) == block);
    is_filled(block, after);
    free(block);
    block = calloc(1, before);
    for (size_t i = 0; i < before; i++)
        CHECK(block[i] == 0);
    free(block);
}

static void lengthen(size_t before, size_t after)
{
    char *block = malloc(before);
    size_t usable = malloc_usable_size(block);
    CHECK(block != NULL && usable >= after);
    fill(block, usable);
    CHECK(realloc(block, after) == block);
    CHECK(resident(block + after, block + usable) + 8192 >= usable - after);
    free(block);
}

static void lengthen_by_steps(size_t from, size_t to, int moves_max)
{
    char *block = malloc(from);
    CHECK(block != NULL);
    for (size_t size = from; size <= to; size += 1000) {
        char *grown = realloc(block, size);
        CHECK(grown != NULL);
        moves_max -= grown != block;
        block = grown;
    }
    CHECK(moves_max >= 0);
    free(block);
}

/* The end of a large block is another range, or stays. */
static void shorten_large(size_t before, size_t after)
{
    char *block = malloc(before);
    CHECK(block != NULL);
    fill(block, before);
    CHECK(realloc(block, after) == block);
    is_filled(block, after);
    malloc_trim(0);
    size_t usable = malloc_usable_size(block);
    CHECK(usable < after + KEPT || resident(block + after, block + usable) == 0);
    free(block);
}

int main(void)
{
    for (int round = 0; round < 3; round++) {
        /* From half on it stays where it is. */
        shorten(1000000, 600000);
        shorten(1000000, 990000);
        shorten(900000, 840000);
        shorten(500000, 300000);
        shorten(250000, 180000);
        shorten(190000, 140000);
        shorten(190000, 120000);
        shorten(120000, 70000);
        /* A hardened process has mappings of these sizes. */
        if (!getenv("SHEAVES_HARDEN")) {
            lengthen(700000, 701000);
            lengthen(930000, 970000);
            lengthen_by_steps(60000, 1000000, 7);
        }
        shorten_large(10 << 20, 9 << 20);
        shorten_large(10 << 20, (10 << 20) - 70000);
        shorten_large(3 << 20, 2 << 20);
    }
    return 0;
}
