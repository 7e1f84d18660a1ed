/*
 * Speaks the protocol of the preload object and leaves allocation to the C library: these tests
 * test the command, not the allocator. With SHEAVES_STATS=start it writes a greeting, and with
 * other values at exit the number of allocations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);

static unsigned long allocations;
static int report_fd = -1;

void *malloc(size_t size)
{
	__atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
	return __libc_malloc(size);
}

__attribute__((constructor)) static void greet(void)
{
	const char *stats = getenv("SHEAVES_STATS");
	char line[128];
	int length;

	/* Some programs close stderr before their destructors run. */
	if (stats && strcmp(stats, "start"))
		report_fd = fcntl(2, F_DUPFD_CLOEXEC, 100);
	if (report_fd >= 0 || !stats)
		return;
	length = snprintf(line, sizeof(line),
			  "sheaves: %.40s runs on Sheaves 0.1.0 (engine portable, slots by virtual, pid %d)\n",
			  program_invocation_short_name, (int)getpid());
	if (write(2, line, length) != length)
		_exit(99);
}

__attribute__((destructor)) static void report(void)
{
	const char *format = getenv("SHEAVES_STATS");
	const char *path = getenv("SHEAVES_STATS_FILE");
	char text[128];
	int fd = report_fd, length;

	if (!format || !strcmp(format, "start"))
		return;
	if (path)
		fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
	length = snprintf(text, sizeof(text),
			  strcmp(format, "json") ? "sheaves allocations %lu\n"
						 : "{\"allocations\": %lu}\n",
			  allocations);
	if (write(fd, text, length) != length)
		_exit(98);
}
