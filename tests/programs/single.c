/*
 * single: frees 2 GiB in a process with one thread. That must stay its only one: unshare(2) of the
 * user namespace and setns(2) refuse a process with two. Then a burst in a child, in a daemon of
 * it, and in what the daemon executes. Prints what unshare returned.
 *
 * single forks COUNT: forks COUNT times while a second thread exists and the keeper works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>

#include "resident.h"

enum { BLOCKS = 1 << 21, BYTES = 256, FEW = 4096 };

static char *blocks[BLOCKS];

static void fail(const char *what)
{
	if (write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0)
		_exit(3);
	_exit(2);
}

static void burst(int count)
{
	for (int i = 0; i < count; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			fail("no memory");
		memset(blocks[i], i, BYTES);
	}
	for (int i = 0; i < count; i++) {
		if (blocks[i][BYTES - 1] != (char)i)
			fail("a block has changed");
		free(blocks[i]);
	}
}

/* Without malloc. */
static int count_threads(void)
{
	char text[4000] = "", *line;
	int fd = open("/proc/self/status", O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		fail("no status");
	close(fd);
	line = strstr(text, "\nThreads:");
	return line ? atoi(line + 9) : 0;
}

static void wait_for(pid_t child)
{
	int status;

	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		fail("a child has failed");
}

/* In the child of a fork: as daemon(3), and at last another program. */
static void become_daemon(char *self)
{
	pid_t child;

	burst(BLOCKS / 8);
	setsid();
	child = fork();
	if (child == 0) {
		burst(BLOCKS / 8);
		if (count_threads() != 1)
			fail("a daemon has several threads");
		execl(self, self, "burst", NULL);
		fail("no exec");
	}
	wait_for(child);
	_exit(0);
}

static void *sleep_for_ever(void *unused)
{
	free(malloc(1));
	for (;;)
		pause();
	return unused;
}

static void fork_beside_the_keeper(int count)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, sleep_for_ever, NULL))
		fail("no thread");
	for (int i = 0; i < count; i++) {
		pid_t child;

		burst(i % 50 == 0 ? BLOCKS / 16 : FEW);
		child = fork();
		if (child == 0) {
			alarm(60);
			burst(FEW);
			_exit(count_threads() != 1);
		}
		wait_for(child);
	}
	printf("%d children beside %d threads\n", count, count_threads());
}

int main(int argc, char **argv)
{
	pid_t child;
	int error;

	if (argc > 2) {
		fork_beside_the_keeper(atoi(argv[2]));
		return 0;
	}
	for (int round = 0; round < (argc > 1 ? 1 : 4); round++)
		burst(argc > 1 ? BLOCKS / 8 : BLOCKS);
	if (count_threads() != 1)
		fail("there are several threads");
	if (argc > 1)
		return 0;
	child = fork();
	if (child == 0)
		become_daemon(argv[0]);
	wait_for(child);
	error = unshare(CLONE_NEWUSER) ? errno : 0;
	if (error == EINVAL)
		fail("unshare found several threads");
	burst(BLOCKS / 8);
	printf("unshare: %s\n", error ? strerror(error) : "ok");
	return 0;
}
