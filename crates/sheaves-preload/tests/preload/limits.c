/* Programs at the limits of the system. One argument: which. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1ul << 20)

static int limit(int resource, rlim_t bytes) {
	struct rlimit limit = {bytes, bytes};
	return setrlimit(resource, &limit);
}

/* Allocates long enough for the library to do what it does once a process is not short-lived. */
static int file_size(void) {
	if (limit(RLIMIT_FSIZE, MIB))
		return 2;
	for (int round = 0; round < 200; round++) {
		void *blocks[300];
		for (int i = 0; i < 300; i++)
			blocks[i] = malloc(3000);
		for (int i = 0; i < 300; i++)
			free(blocks[i]);
		usleep(1000);
	}
	return 0;
}

static void *wait(void *unused) {
	(void)unused;
	pause();
	return NULL;
}

/* What large blocks have left idle is not missing when the address space is used up. */
static int idle(void) {
	void *blocks[40];
	pthread_t other;
	/* With two threads, the one that returns memory is awake while memory is unused. */
	if (pthread_create(&other, NULL, wait, NULL))
		return 5;
	for (int i = 0; i < 20; i++) {
		char *block = malloc(4 * MIB);
		memset(block, 1, 4 * MIB);
		free(block);
		usleep(20000);
	}
	if (limit(RLIMIT_AS, 1024 * MIB))
		return 2;
	for (int i = 0; i < 40; i++)
		blocks[i] = malloc(20 * MIB);
	for (int i = 0; i < 40; i += 2)
		free(blocks[i]);
	void *large = malloc(300 * MIB);
	if (!large)
		return 3;
	free(large);
	for (int i = 0; i < 400; i++)
		if (!malloc(900 << 10))
			return 4;
	return 0;
}

/* Allows the process this many bytes of address space more than it has. */
static int leave(unsigned long bytes) {
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%lu", &pages) != 1)
		return 1;
	fclose(file);
	return limit(RLIMIT_AS, pages * sysconf(_SC_PAGESIZE) + bytes);
}

/* A block that is larger than the heap fits once the heap has been returned. */
static int heap(void) {
	enum { BLOCKS = 80000 };
	static void *blocks[BLOCKS];
	for (int i = 0; i < BLOCKS; i++)
		if (!(blocks[i] = malloc(1000)))
			return 2;
	if (leave(60 * MIB))
		return 3;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return malloc(120 * MIB) ? 0 : 4;
}

/* A block may grow where it is, or move, once what others have left idle has been returned. */
static int growth(void) {
	void *blocks[8], *between[8];
	void *block = malloc(450 * MIB);
	for (int i = 0; i < 8; i++) {
		blocks[i] = malloc(50 * MIB);
		between[i] = malloc(2 * MIB);
		if (!block || !blocks[i] || !between[i])
			return 2;
	}
	for (int i = 0; i < 8; i++)
		free(blocks[i]);
	if (leave(100 * MIB))
		return 3;
	return realloc(block, 650 * MIB) ? 0 : 4;
}

/* With all mappings used up, the ends of blocks cannot be unmapped. */
static int mappings(void) {
	enum { BLOCKS = 40, BYTES = 250 << 20, SPLITS = 66000 };
	char *blocks[BLOCKS];
	size_t page = sysconf(_SC_PAGESIZE);
	for (int i = 0; i < BLOCKS; i++)
		if (!(blocks[i] = malloc(BYTES)))
			return 2;
	char *split = mmap(NULL, SPLITS * page * 2, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (split == MAP_FAILED)
		return 3;
	for (long i = 0; i < SPLITS; i++)
		if (mprotect(split + i * page * 2, page, PROT_READ))
			break;
	for (size_t bytes = BYTES; bytes > 4 * MIB; bytes = bytes / 4 * 3)
		for (int i = 0; i < BLOCKS; i++)
			if (!(blocks[i] = realloc(blocks[i], bytes)))
				return 4;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return 0;
}

/* More large blocks than the process may have mappings, of which it needs some for other things. */
static int many(void)
{
	enum { BLOCKS = 70000, BYTES = 1100 << 10, MAPPINGS_MAX = 12000 };
	static char *blocks[BLOCKS];
	pthread_t other;
	for (int i = 0; i < BLOCKS; i++)
		if (!(blocks[i] = malloc(BYTES)))
			return 2;
	for (int i = 0; i < BLOCKS; i += 32) {
		blocks[i][0] = blocks[i][BYTES - 1] = 1;
		if (!(blocks[i] = realloc(blocks[i], BYTES + (200 << 10))) || blocks[i][BYTES - 1] != 1)
			return 3;
	}
	FILE *file = fopen("/proc/self/maps", "r");
	int c, mappings = 0;
	while ((c = fgetc(file)) != EOF)
		mappings += c == '\n';
	fclose(file);
	if (mappings > MAPPINGS_MAX)
		return 4;
	if (pthread_create(&other, NULL, wait, NULL))
		return 5;
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return 0;
}

int main(int count, char **arguments) {
	const char *which = count > 1 ? arguments[1] : "";
	if (!strcmp(which, "file-size"))
		return file_size();
	if (!strcmp(which, "idle"))
		return idle();
	if (!strcmp(which, "heap"))
		return heap();
	if (!strcmp(which, "growth"))
		return growth();
	if (!strcmp(which, "mappings"))
		return mappings();
	if (!strcmp(which, "many"))
		return many();
	return 1;
}
