/*
 * freer ROUNDS: two threads allocate, one frees, through a queue. Prints the mean of resident
 * memory in KiB over the third and over the last quarter of the rounds, and the number of blocks
 * (in the first half caches still find their size).
 * Every block carries its size at both ends, so that a block given out twice is noticed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "resident.h"

enum { PRODUCERS = 2, QUEUE = 4096, PER_ROUND = 20000 };

static uint16_t *queue[QUEUE];
static size_t head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_full = PTHREAD_COND_INITIALIZER, not_empty = PTHREAD_COND_INITIALIZER;
static long rounds;

static void *produce(void *seed)
{
	uint32_t state = (uint32_t)(uintptr_t)seed;

	for (long i = 0; i < rounds * PER_ROUND / PRODUCERS; i++) {
		uint16_t words, *block;

		state = state * 1664525u + 1013904223u;
		words = 8 + (state >> 16) % 1000;
		block = malloc(words * sizeof(*block));
		if (!block)
			abort();
		block[0] = block[words - 1] = words;
		pthread_mutex_lock(&lock);
		while (head - tail == QUEUE)
			pthread_cond_wait(&not_full, &lock);
		queue[head++ % QUEUE] = block;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static uint16_t *take(void)
{
	uint16_t *block;

	pthread_mutex_lock(&lock);
	while (head == tail)
		pthread_cond_wait(&not_empty, &lock);
	block = queue[tail++ % QUEUE];
	pthread_cond_signal(&not_full);
	pthread_mutex_unlock(&lock);
	return block;
}

int main(int argc, char **argv)
{
	pthread_t producers[PRODUCERS];
	long first = 0, last = 0, quarter;

	rounds = argc > 1 ? atol(argv[1]) : 100;
	quarter = rounds / 4;
	if (quarter < 1)
		return 2;
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		if (pthread_create(&producers[i], NULL, produce, (void *)(i + 1)))
			return 1;
	for (long round = 0; round < rounds; round++) {
		for (int i = 0; i < PER_ROUND; i++) {
			uint16_t *block = take();

			if (block[block[0] - 1] != block[0])
				abort();
			free(block);
		}
		if (round >= 2 * quarter && round < 3 * quarter)
			first += resident_kib();
		if (round >= rounds - quarter)
			last += resident_kib();
	}
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i], NULL);
	printf("%ld %ld %ld\n", first / quarter, last / quarter, rounds * PER_ROUND);
	return 0;
}
