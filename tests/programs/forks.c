/*
 * forks THREADS COUNT: forks COUNT times while THREADS threads allocate and free. Prints how many
 * children ended well and how many operations the threads did. A child that hangs is ended by its
 * alarm and reported; blocks carry their size in every word, so that corruption is noticed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HELD = 256, IN_FLIGHT_MAX = 8, CHILD_OPERATIONS = 400, CHILD_SECONDS = 60 };

static atomic_bool stop;
static atomic_long operations;

/* What one thread holds; the words of a block all equal its number of words. */
struct holder {
	uint32_t *blocks[HELD];
	uint32_t state;
};

static void fail(const char *what)
{
	/* Not stdio: it may allocate, and a child has the locks of other threads. */
	if (write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
		_exit(3);
	_exit(2);
}

static void check_and_free(uint32_t *block)
{
	if (!block)
		return;
	for (uint32_t i = 0, words = block[0]; i < words; i++)
		if (block[i] != words)
			fail("a block was changed by somebody else");
	free(block);
}

static void replace_one(struct holder *holder)
{
	uint32_t words, slot;

	holder->state = holder->state * 1664525u + 1013904223u;
	slot = (holder->state >> 24) % HELD;
	/* Mostly small; one in 64 beyond what size classes serve. */
	words = 4 + (holder->state >> 8) % 250;
	if ((holder->state >> 18) % 64 == 0)
		words *= 100;
	check_and_free(holder->blocks[slot]);
	holder->blocks[slot] = malloc(words * sizeof(uint32_t));
	if (!holder->blocks[slot])
		fail("malloc failed");
	for (uint32_t i = 0; i < words; i++)
		holder->blocks[slot][i] = words;
}

static void *allocate(void *seed)
{
	struct holder holder = { .state = (uint32_t)(uintptr_t)seed };
	const struct timespec pause = { .tv_nsec = 50000 };

	while (!atomic_load(&stop)) {
		for (int i = 0; i < 64; i++)
			replace_one(&holder);
		atomic_fetch_add(&operations, 64);
		/* Leaves some of the machine to the children. */
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < HELD; i++)
		check_and_free(holder.blocks[i]);
	return NULL;
}

static void child(struct holder *inherited)
{
	alarm(CHILD_SECONDS);
	for (int i = 0; i < CHILD_OPERATIONS; i++)
		replace_one(inherited);
	for (int i = 0; i < HELD; i++)
		check_and_free(inherited->blocks[i]);
	_exit(0);
}

static void reap_one(void)
{
	int status;

	while (wait(&status) < 0)
		if (errno != EINTR)
			fail("wait failed");
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		fail("a child hangs");
	if (WIFSIGNALED(status))
		fail("a child was killed by a signal");
	if (WEXITSTATUS(status) != 0)
		fail("a child failed");
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 8;
	long count = argc > 2 ? atol(argv[2]) : 1000, in_flight = 0;
	struct holder own = { .state = 4711 };
	pthread_t ids[64];

	if (threads < 1 || threads > 64 || count < 1)
		return 2;
	for (intptr_t i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, allocate, (void *)(i + 1)))
			fail("pthread_create failed");
	for (long i = 0; i < count; i++) {
		pid_t pid;

		replace_one(&own);
		pid = fork();
		if (pid < 0)
			fail("fork failed");
		if (pid == 0)
			child(&own);
		if (++in_flight == IN_FLIGHT_MAX) {
			reap_one();
			in_flight--;
		}
	}
	while (in_flight-- > 0)
		reap_one();
	atomic_store(&stop, 1);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("%ld %ld\n", count, atomic_load(&operations));
	return 0;
}
