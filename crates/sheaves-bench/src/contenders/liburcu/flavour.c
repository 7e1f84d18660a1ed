/*
 * The loops of a liburcu reader, compiled once for each flavour with FLAVOUR, its name, and
 * URCU_HEADER, its header. The inlined forms of the readers are used, which liburcu's headers offer
 * under _LGPL_SOURCE; nothing of the library but its public interface is.
 */
#define _LGPL_SOURCE
/* Names without the flavour in them. */
#define URCU_API_MAP
#include URCU_HEADER
#include <stddef.h>
#include <stdint.h>

/* With qsbr a section costs nothing, but every thread has to say now and then that it is in none:
 * after 1024 sections here, as in liburcu's own tests. */
#define QUIET_EVERY 1024

#ifdef IS_QSBR
#define ANNOUNCE(section)                          \
	do {                                           \
		if (((section) & (QUIET_EVERY - 1)) == 0)  \
			rcu_quiescent_state();                 \
	} while (0)
#else
#define ANNOUNCE(section) ((void)0)
#endif

/* As in tables/readers/contenders.rs. */
struct node {
	uint64_t value;
	const struct node *next;
};

static void enter_thread(void)
{
	rcu_register_thread();
}

static void leave_thread(void)
{
	rcu_unregister_thread();
}

/* Around everything that blocks; only qsbr has to be told. */
static void pause_thread(void)
{
#ifdef IS_QSBR
	rcu_thread_offline();
#endif
}

static void resume_thread(void)
{
#ifdef IS_QSBR
	rcu_thread_online();
#endif
}

static void sections(size_t count)
{
	for (size_t section = 0; section < count; section++) {
		rcu_read_lock();
		/* No instruction: keeps the section from being optimised away where it is empty. */
		cmm_barrier();
		rcu_read_unlock();
		ANNOUNCE(section);
	}
}

#define LOADS(depth)                                                \
	case depth:                                                     \
		for (size_t section = 0; section < count; section++) {      \
			rcu_read_lock();                                        \
			const struct node *node = rcu_dereference(*root);       \
			_Pragma("GCC unroll 8")                                 \
			for (int step = 1; step < depth; step++)                \
				node = node->next;                                  \
			sum += node->value;                                     \
			rcu_read_unlock();                                      \
			ANNOUNCE(section);                                      \
		}                                                           \
		break

/* Reads the pointer, and the value after `depth` dependent loads, `count` times. The sum. */
static uint64_t loads(struct node *const *root, size_t depth, size_t count)
{
	uint64_t sum = 0;

	switch (depth) {
		LOADS(1);
		LOADS(2);
		LOADS(3);
		LOADS(4);
		LOADS(5);
	}
	return sum;
}

/* Sections that last for as many steps of four cycles. Long ones are announced one by one. */
static uint64_t busy(size_t count, size_t steps)
{
	uint64_t value = 1;

	for (size_t section = 0; section < count; section++) {
		rcu_read_lock();
		for (size_t step = 0; step < steps; step++) {
			value = value * 5 + 1;
			__asm__ volatile("" : "+r"(value));
		}
		rcu_read_unlock();
		ANNOUNCE(steps < QUIET_EVERY ? section : 0);
	}
	return value;
}

static void synchronize(void)
{
	synchronize_rcu();
}

static void call(struct rcu_head *head, void (*function)(struct rcu_head *head))
{
	call_rcu(head, function);
}

/* As in mod.rs beside this file. */
struct flavour {
	void (*enter_thread)(void);
	void (*leave_thread)(void);
	void (*pause)(void);
	void (*resume)(void);
	void (*sections)(size_t count);
	uint64_t (*loads)(struct node *const *root, size_t depth, size_t count);
	uint64_t (*busy)(size_t count, size_t steps);
	void (*synchronize)(void);
	void (*call)(struct rcu_head *head, void (*function)(struct rcu_head *head));
};

#define JOIN_(flavour) sheaves_bench_liburcu_##flavour
#define JOIN(flavour) JOIN_(flavour)

const struct flavour JOIN(FLAVOUR) = {
	.enter_thread = enter_thread,
	.leave_thread = leave_thread,
	.pause = pause_thread,
	.resume = resume_thread,
	.sections = sections,
	.loads = loads,
	.busy = busy,
	.synchronize = synchronize,
	.call = call,
};

_Static_assert(sizeof(struct rcu_head) <= 2 * sizeof(void *),
	       "the room for it in tables/synchronize/flood.rs");
