/*
 * Allocates 1 GiB of blocks of mixed sizes, touches them, frees them in another order, and calls
 * malloc_trim(0). Prints resident memory in KiB: at the start, at the peak, after the frees, at the
 * end. The table of blocks is a mapping of its own and gone at the end.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "resident.h"

enum { BLOCKS_MAX = 1 << 23 };
static const size_t burst_bytes = (size_t)1 << 30;

static uint64_t state = 88172645463325252u;

static uint64_t random_next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Many small blocks, few large ones: each power of two has the same share of the bytes. */
static size_t random_size(void)
{
	int shift = 4 + __builtin_ctzll(random_next() | (1u << 15));

	return ((size_t)1 << shift) + random_next() % ((size_t)1 << shift);
}

static char *touch(char *block)
{
	if (!block)
		abort();
	*(volatile char *)block = 1;
	return block;
}

int main(void)
{
	size_t table_bytes = BLOCKS_MAX * sizeof(char *), sum = 0, count = 0;
	long start, peak, freed, end;
	char *first, **blocks;

	/* One block of each size class, which is made by its first block: all classes and the code that
	 * serves them are resident from now on. */
	for (size_t size = 8; size <= 10000000; size += size / 8)
		free(touch(malloc(size)));
	malloc_trim(0);
	first = touch(malloc(100));
	/* Twice: the first call makes its own code resident. */
	resident_kib();
	start = resident_kib();
	blocks = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (blocks == MAP_FAILED)
		return 1;
	while (sum < burst_bytes && count < BLOCKS_MAX) {
		size_t size = random_size();

		blocks[count] = malloc(size);
		if (!blocks[count])
			return 1;
		memset(blocks[count++], (int)size, size);
		sum += size;
	}
	peak = resident_kib();
	for (size_t i = count; i > 0; i--) {
		size_t chosen = random_next() % i;

		free(blocks[chosen]);
		blocks[chosen] = blocks[i - 1];
	}
	munmap(blocks, table_bytes);
	freed = resident_kib();
	malloc_trim(0);
	end = resident_kib();
	free(first);
	printf("%ld %ld %ld %ld\n", start, peak, freed, end);
	return 0;
}
