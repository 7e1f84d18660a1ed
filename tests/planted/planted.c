/*
 * One error of memory for each kind, committed on purpose: planted KIND SIZE.
 *
 * The error is made beside a crowd of live blocks with known contents. Then the program goes on as
 * programs do: it frees the block and some hundred others, looks at its data, and frees everything.
 *
 *   ends by a signal   the error was stopped before it had a consequence
 *   exit status 0      the error was harmless
 *   exit status 1      data of another block were changed or seen, or a block had two owners
 *   exit status 2      the program could not do what it should
 *
 * Compiled three times: as C, as C++ (new and delete), and with -DCACHES for object caches.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(CACHES)
#include <sheaves.h>
static sheaves_cache *cache;
static void *take(size_t size) { (void)size; return sheaves_cache_alloc(cache); }
static void give(void *block) { sheaves_cache_free(cache, block); }
#elif defined(__cplusplus)
#include <new>
static void *take(size_t size) { return ::operator new(size); }
static void give(void *block) { ::operator delete(block); }
#else
static void *take(size_t size) { return malloc(size); }
static void give(void *block) { free(block); }
#endif

enum { CROWD_MAX = 2000, CHURN = 400, LATE = 300000 };

static size_t size;
static unsigned char *crowd[CROWD_MAX];
static int count;
static void *churned[CHURN];

/* Keeps the compiler from knowing anything of a pointer. */
static unsigned char *hide(void *block)
{
	void *volatile hidden = block;
	return (unsigned char *)hidden;
}

static void harmed(const char *what)
{
	fprintf(stderr, "planted: %s\n", what);
	_exit(1);
}

static unsigned char *fresh(unsigned char value)
{
	unsigned char *block = hide(take(size));
	if (!block)
		_exit(2);
	memset(block, value, size);
	return block;
}

static int holds(const unsigned char *block, unsigned char value)
{
	return size == 0 || (block[0] == value && !memcmp(block, block + 1, size - 1));
}

/* Other blocks of the size come and go. */
static void churn(void)
{
	int n = size > 100 << 10 ? 8 : size > 1 << 15 ? 100 : CHURN;

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < n; i++)
			churned[i] = fresh(0xc0);
		for (int i = 0; i < n; i++)
			give(churned[i]);
	}
}

/* Where the error is made: the beginning of the kind says it. */
static enum { HERE, THREAD, HANDLER, CHILD } where;
static void (*wrong)(void *);
static void *wrong_block;

static void *in_thread(void *unused)
{
	wrong(wrong_block);
	return unused;
}

static void in_handler(int unused)
{
	(void)unused;
	wrong(wrong_block);
}

/* A child goes on in the place of its parent, which ends as the child does. */
static void become_child(void)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		return;
	if (child < 0 || waitpid(child, &status, 0) != child)
		_exit(2);
	if (WIFSIGNALED(status)) {
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

static void commit(void (*error)(void *), void *block)
{
	pthread_t thread;

	wrong = error;
	wrong_block = block;
	if (where == CHILD)
		become_child();
	if (where == THREAD) {
		if (pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL))
			_exit(2);
	} else if (where == HANDLER) {
		signal(SIGUSR1, in_handler);
		raise(SIGUSR1);
	} else {
		error(block);
	}
}

static void spoil(void *block) { ((unsigned char *)block)[size / 2] = 0xee; }

static void look(void *block)
{
	unsigned char byte = ((unsigned char *)block)[size / 2];

	if (byte != 0 && byte != 0x6b)
		harmed("a freed block was read");
}

static unsigned char value_of(int index) { return (unsigned char)(index % 200 + 1); }

/* Blocks on all sides. */
static void gather(void)
{
	count = size > 100 << 10 ? 8 : size > 1 << 15 ? 40 : CROWD_MAX;
	for (int i = 0; i < count; i++)
		crowd[i] = fresh(value_of(i));
}

/* A block of the crowd that has another one right before it and one right after it. */
static int surrounded(void)
{
	uintptr_t reach = size + 160 + size / 4;

	for (int i = count / 2; i < count; i++) {
		int below = 0, above = 0;
		for (int j = 0; j < count; j++) {
			uintptr_t a = (uintptr_t)crowd[i], b = (uintptr_t)crowd[j];
			above |= b > a && b - a <= reach;
			below |= b < a && a - b <= reach;
		}
		if (below && above)
			return i;
	}
	return count / 2;
}

/* The crowd is as it was; it ends. */
static void look_and_end(int without)
{
	for (int i = 0; i < count; i++)
		if (i != without && !holds(crowd[i], value_of(i)))
			harmed("the data of another block have changed");
	for (int i = 0; i < count; i++)
		if (i != without)
			give(crowd[i]);
	churn();
	exit(0);
}

/* Writes outside of a block, which is freed then. */
static void outside(long from, size_t bytes, int by_memcpy)
{
	static unsigned char source[64];
	int index;
	unsigned char *place;

	gather();
	index = surrounded();
	place = hide(crowd[index] + from);
	memset(source, 0xee, sizeof source);
	if (by_memcpy)
		memcpy(place, source, bytes);
	else
		for (size_t i = 0; i < bytes; i++)
			place[i] = 0xee;
	give(crowd[index]);
	churn();
	look_and_end(index);
}

/* A write that goes on for a megabyte: no further than what is mapped, in any allocator. */
static void flood(void)
{
	unsigned char *place;
	int index;

	gather();
	index = surrounded();
	place = hide(crowd[index] + size);
	for (size_t i = 0; i < 1 << 20; i++)
		place[i] = 0xee;
	give(crowd[index]);
	churn();
	look_and_end(index);
}

/* No two of many new blocks are the same, or the same as a live one. */
static void look_for_twins(void)
{
	int n = size > 100 << 10 ? 8 : size > 1 << 15 ? 60 : CHURN;
	void *blocks[CHURN];

	for (int i = 0; i < n; i++)
		blocks[i] = fresh(0xd0);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			if (blocks[i] == blocks[j])
				harmed("a block was allocated twice");
	for (int i = 0; i < n; i++)
		give(blocks[i]);
	look_and_end(-1);
}

/* Allocates until a block comes back: 0 if it does not. */
static unsigned char *again(unsigned char *block, int most)
{
	for (int i = 0; i < most; i++) {
		unsigned char *other = fresh(0x5e);
		if (other == block)
			return other;
		give(other);
	}
	return NULL;
}

static int is(const char *kind, const char *name) { return !strcmp(kind, name); }

static void lifetimes(const char *kind)
{
	unsigned char *block, *other;

	gather();
	block = fresh(0x77);
	other = fresh(0x78);
	if (is(kind, "write-after-free")) {
		give(block);
		commit(spoil, block);
		churn();
		look_for_twins();
	} else if (is(kind, "read-after-free")) {
		/* At once: nothing else is allocated or freed before. */
		give(block);
		commit(look, block);
	} else if (is(kind, "write-after-reuse") || is(kind, "read-after-reuse")) {
		unsigned char *owner;
		give(block);
		owner = again(block, 200);
		if (is(kind, "read-after-reuse")) {
			if (owner && block[0] == 0x5e)
				harmed("data of the next owner were read");
		} else {
			block[size / 2] = 0xee;
			if (owner && !holds(owner, 0x5e))
				harmed("data of the next owner were changed");
		}
		if (owner)
			give(owner);
		churn();
	} else if (is(kind, "write-after-late-reuse")) {
		unsigned char *owner;
		give(block);
		owner = again(block, LATE);
		block[size / 2] = 0xee;
		if (owner && !holds(owner, 0x5e))
			harmed("data of the next owner were changed");
	} else if (is(kind, "double-free")) {
		give(block);
		commit(give, block);
		look_for_twins();
	} else if (is(kind, "double-free-interleaved")) {
		give(block);
		give(other);
		commit(give, block);
		look_for_twins();
	} else if (is(kind, "double-free-delayed")) {
		give(block);
		churn();
		commit(give, block);
		look_for_twins();
	} else if (is(kind, "double-free-after-reuse")) {
		unsigned char *owner;
		give(block);
		owner = again(block, 200);
		commit(give, block);
		churn();
		if (owner && !holds(owner, 0x5e))
			harmed("data of the next owner were changed");
		look_for_twins();
	} else if (is(kind, "double-free-after-late-reuse")) {
		unsigned char *owner;
		give(block);
		owner = again(block, LATE);
		give(block);
		churn();
		if (owner && !holds(owner, 0x5e))
			harmed("data of the next owner were changed");
	} else if (is(kind, "uninitialised")) {
		give(block);
		give(other);
		for (int i = 0; i < (size > 1 << 15 ? 8 : LATE / 10); i++) {
			unsigned char *next = hide(take(size));
			for (size_t j = 0; j < size; j++)
				if (next[j] == 0x77 || next[j] == 0x78 || next[j] == 0xee)
					harmed("a new block has the contents of a freed one");
			memset(next, 0xee, size);
			give(next);
		}
	} else {
		_exit(2);
	}
	look_and_end(-1);
}

static void bad_addresses(const char *kind)
{
	static unsigned char data[256] __attribute__((aligned(64)));
	unsigned char local[256] __attribute__((aligned(64)));
	unsigned char *block;

	gather();
	block = fresh(0x77);
	if (is(kind, "free-interior"))
		give(hide(block + (size < 32 ? 8 : 16)));
	else if (is(kind, "free-middle"))
		give(hide(block + size / 2 / 16 * 16 + (size < 32 ? 1 : 0)));
	else if (is(kind, "free-unaligned"))
		give(hide(block + 1));
	else if (is(kind, "free-stack"))
		give(hide(local + 64));
	else if (is(kind, "free-static"))
		give(hide(data + 64));
	else if (is(kind, "free-foreign"))
		give(hide(mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	else if (is(kind, "free-wild"))
		give((void *)0x123456780);
	else
		_exit(2);
	churn();
	look_for_twins();
}

#if !defined(CACHES) && !defined(__cplusplus)
static void of_malloc(const char *kind)
{
	unsigned char *block;

	gather();
	block = fresh(0x77);
	if (!strncmp(kind, "sized-", 6)) {
		void (*sized)(void *, size_t) = (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
		void (*aligned)(void *, size_t, size_t) =
			(void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
		if (!sized || !aligned)
			_exit(2);
		if (is(kind, "sized-smaller"))
			sized(block, size / 5);
		else if (is(kind, "sized-larger"))
			sized(block, size * 4);
		else if (is(kind, "sized-aligned-smaller"))
			aligned(hide(aligned_alloc(64, size)), 64, size / 5);
		else
			aligned(hide(aligned_alloc(64, size)), 1ul << 40, size);
		churn();
	} else if (is(kind, "realloc-freed")) {
		free(block);
		block = hide(realloc(block, size - size / 4));
		churn();
		if (!holds(block, 0x77))
			harmed("the block has lost its contents");
	} else if (is(kind, "realloc-freed-larger")) {
		free(block);
		block = hide(realloc(block, 3 * size));
		churn();
	} else if (is(kind, "zero-read")) {
		volatile unsigned char *empty = hide(malloc(0));
		(void)empty[0];
		harmed("a block of size 0 was read");
	} else if (is(kind, "zero-write")) {
		volatile unsigned char *empty = hide(malloc(0));
		empty[0] = 1;
		harmed("a block of size 0 was written to");
	} else {
		_exit(2);
	}
	look_for_twins();
}
#elif !defined(CACHES)
struct Element {
	~Element() { word = 0; }
	volatile long word = 1;
};

static void of_malloc(const char *kind)
{
	const std::align_val_t wide{64};

	gather();
	if (is(kind, "delete-smaller-size"))
		::operator delete(hide(::operator new(size)), size / 4);
	else if (is(kind, "delete-larger-size"))
		::operator delete(hide(::operator new(size)), size * 4);
	else if (is(kind, "delete-array-smaller-size"))
		::operator delete[](hide(::operator new[](size)), size / 4);
	else if (is(kind, "delete-aligned-smaller-size"))
		::operator delete(hide(::operator new(size, wide)), size / 4, wide);
	else if (is(kind, "delete-aligned-array-size"))
		::operator delete[](hide(::operator new[](size, wide)), size / 4, wide);
	else if (is(kind, "delete-alignment"))
		::operator delete(hide(::operator new(size)), std::align_val_t{1ul << 40});
	else if (is(kind, "delete-of-array"))
		delete (Element *)hide(new Element[size / sizeof(Element)]);
	else
		_exit(2);
	churn();
	look_for_twins();
}
#else
static void of_malloc(const char *kind)
{
	(void)kind;
	_exit(2);
}
#endif

/* The address in the text of a function is what a report has of it. */
__attribute__((noinline)) void planted_leak(void)
{
	for (int i = 0; i < 3; i++)
		*(void *volatile *)&churned[i] = take(size);
}

__attribute__((noinline)) void planted_free(void *block)
{
	give(block);
	hide(NULL);
}

/* For reports of debug mode, which name these functions. */
static void reported(const char *kind)
{
	unsigned char *block;

	if (is(kind, "leak"))
		planted_leak();
	else {
		block = fresh(1);
		planted_free(block);
		if (is(kind, "free-again"))
			give(hide(block));
		else if (is(kind, "realloc-again"))
			block = hide(realloc(block, size * 2));
		else {
			block[size / 2] = 2;
			for (int i = 0; i < LATE; i++)
				give(fresh(3));
		}
	}
	exit(0);
}

int main(int argc, char **argv)
{
	struct rlimit none = {0, 0};
	const char *kind = argc == 3 ? argv[1] : "";
	long end;

	if (!strncmp(kind, "thread-", 7))
		where = THREAD;
	else if (!strncmp(kind, "handler-", 8))
		where = HANDLER;
	else if (!strncmp(kind, "child-", 6))
		where = CHILD;
	if (where != HERE)
		kind = strchr(kind, '-') + 1;
	setrlimit(RLIMIT_CORE, &none);
	size = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	end = (long)size;
#if defined(CACHES)
	cache = sheaves_cache_create("planted", size, 16, 0, NULL);
	if (!cache)
		return 2;
#endif
	if (size == 0)
		return 2;
	if (is(kind, "leak") || is(kind, "free-again") || is(kind, "realloc-again") ||
	    is(kind, "write-again"))
		reported(kind);
	if (is(kind, "over-mib"))
		flood();
	if (is(kind, "over-1"))
		outside(end, 1, 0);
	if (is(kind, "over-32"))
		outside(end, 32, 0);
	if (is(kind, "over-memcpy"))
		outside(end, 48, 1);
	if (is(kind, "over-stride"))
		outside(end + 31, 1, 0);
	if (is(kind, "under-1"))
		outside(-1, 1, 0);
	if (is(kind, "under-32"))
		outside(-32, 32, 0);
	if (is(kind, "under-stride"))
		outside(-32, 1, 0);
	if (!strncmp(kind, "free-", 5))
		bad_addresses(kind);
	if (!strncmp(kind, "realloc", 7) || !strncmp(kind, "zero", 4) || !strncmp(kind, "delete", 6) ||
	    !strncmp(kind, "sized", 5))
		of_malloc(kind);
	lifetimes(kind);
	return 2;
}
