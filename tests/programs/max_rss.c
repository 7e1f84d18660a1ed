/*
 * max_rss OBJECT PROGRAM...: runs a program with OBJECT preloaded (none if empty) and prints the
 * peak of its resident memory in KiB. Small itself, because the peak is inherited through exec.
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
	pid = fork();
	if (pid == 0) {
		if (argv[1][0])
			setenv("LD_PRELOAD", argv[1], 1);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status != 0)
		return 1;
	printf("%ld\n", usage.ru_maxrss);
	return 0;
}
