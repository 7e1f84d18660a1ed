/*
 * decay THREADS KEPT_PERCENT: frees 1 GiB of small blocks in random order, but for some. With one
 * thread it goes on with a little work, otherwise it does a little and sleeps. Prints resident
 * memory in KiB: at the start, at the peak, when the last free has returned, 2 and 3 seconds later,
 * and after malloc_trim; then how often the keeper has run in the 2 seconds after that, and the
 * number of threads in this process and in a child that does the same.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "resident.h"

enum { BLOCKS = 4 << 20, BYTES = 256 };

static char **blocks;

static void *sleep_for_ever(void *unused)
{
	free(malloc(1));
	for (;;)
		pause();
	return unused;
}

static uint32_t next_random(void)
{
	static uint32_t state = 1;

	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

static void allocate(void)
{
	for (long i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			abort();
		memset(blocks[i], 1, BYTES);
	}
}

/* In random order: so slabs become empty late. */
static void release(uint32_t kept_percent)
{
	for (long i = BLOCKS - 1; i > 0; i--) {
		long other = ((long)next_random() << 16 ^ next_random()) % (i + 1);
		char *block = blocks[i];

		blocks[i] = blocks[other];
		blocks[other] = block;
	}
	for (long i = 0; i < BLOCKS; i++)
		if (next_random() % 100 >= kept_percent)
			free(blocks[i]);
}

/*
 * Threads of this process, and how often the one of the library has gone to sleep. Without malloc,
 * so that there is nothing to do for it.
 */
static int count_threads(long *sleeps)
{
	int count = 0;

	*sleeps = 0;
	for (int tid = getpid(); tid < getpid() + 100; tid++) {
		char path[100], text[4000] = "", *line;
		int fd;

		snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		count++;
		if (read(fd, text, sizeof(text) - 1) <= 0)
			abort();
		close(fd);
		line = strstr(text, "\nvoluntary_ctxt_switches:");
		if (line && strncmp(text, "Name:\tsheaves-rcu\n", 18) == 0)
			*sleeps = atol(strchr(line, ':') + 1);
	}
	return count;
}

/* Fewer at once than fit in two sheaves would take no slow path, and nothing else looks. */
static void use_some(void)
{
	char *few[1000];

	for (int i = 0; i < 1000; i++)
		few[i] = malloc(BYTES);
	for (int i = 0; i < 1000; i++)
		free(few[i]);
}

/*
 * For that time. With one thread, a tenth of a block in a microsecond. With more, once: an
 * allocation starts the library's thread, which a free may not.
 */
static void work(int threads, int seconds)
{
	if (threads > 1) {
		use_some();
		sleep(seconds);
		return;
	}
	for (int round = 0; round < 100 * seconds; round++) {
		use_some();
		usleep(10 * 1000);
	}
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1, status;
	uint32_t kept_percent = argc > 2 ? atoi(argv[2]) : 0;
	long start, peak, freed, after_2, after_3, trimmed, sleeps, sleeps_later;
	pthread_t thread;

	blocks = mmap(NULL, BLOCKS * sizeof(*blocks), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
			abort();
	free(malloc(BYTES));
	resident_kib();
	start = resident_kib();
	allocate();
	peak = resident_kib();
	release(kept_percent);
	freed = resident_kib();
	work(threads, 2);
	after_2 = resident_kib();
	work(threads, 1);
	after_3 = resident_kib();
	malloc_trim(0);
	trimmed = resident_kib();
	sleep(1);
	count_threads(&sleeps);
	sleep(2);
	threads = count_threads(&sleeps_later);
	printf("%ld %ld %ld %ld %ld %ld %ld %d\n", start, peak, freed, after_2, after_3, trimmed,
	       /* The thread may have ended. */
	       sleeps_later > sleeps ? sleeps_later - sleeps : 0, threads);
	fflush(stdout);
	if (fork() == 0) {
		allocate();
		release(0);
		_exit(count_threads(&sleeps));
	}
	wait(&status);
	printf("%d\n", WEXITSTATUS(status));
	return 0;
}
