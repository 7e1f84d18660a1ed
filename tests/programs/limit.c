/*
 * limit: bursts of 200 MiB, each freed before the next: of mappings, of small blocks, and of blocks
 * between, beside a second thread. Prints the most resident memory in KiB above that of the start.
 */
#include <pthread.h>
#include <stdio.h>

#include "resident.h"

enum { BYTES = 200 << 20, ROUNDS = 6 };

static char *blocks[BYTES / 1000];
static long most;

static void *sleep_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

static void burst(size_t size)
{
	size_t count = BYTES / size;
	long resident;

	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(size);
		if (!blocks[i])
			abort();
		memset(blocks[i], (int)i, size);
	}
	resident = resident_kib();
	if (resident > most)
		most = resident;
	for (size_t i = 0; i < count; i++) {
		if (blocks[i][size - 1] != (char)i)
			abort();
		free(blocks[i]);
	}
}

int main(void)
{
	pthread_t thread;
	long start;

	memset(blocks, 1, sizeof(blocks));
	if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
		abort();
	resident_kib();
	start = resident_kib();
	for (int round = 0; round < ROUNDS; round++) {
		burst(20 << 20);
		burst(1000);
		burst(100 * 1000);
	}
	printf("%ld\n", most - start);
	return 0;
}
