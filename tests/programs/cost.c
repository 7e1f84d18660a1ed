/*
 * cost OBJECT PROGRAM...: runs a program with OBJECT preloaded (none if empty) and prints the peak
 * of its resident memory in KiB, and its page faults. Small itself, because the peak is inherited
 * through exec.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;
	pid_t pid;

	if (argc < 3)
		return 2;
	/* Before the fork: of what it costs here the child would take a part. */
	setenv("LD_PRELOAD", argv[1], 1);
	pid = fork();
	if (pid == 0) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0)
		return 1;
	printf("%ld %ld\n", usage.ru_maxrss, usage.ru_minflt);
	return 0;
}
