/*
 * The loops of `dispose` with liburcu's usual flavour: an object is allocated, written to, and its
 * free deferred. Nothing of the library but its public interface is used.
 */
#define _LGPL_SOURCE
/* Names without the flavour in them. */
#define URCU_API_MAP
#include <urcu/urcu-memb.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define OBJECT_BYTES 64

/* As in tables/dispose/memory.rs. */
struct object {
	struct rcu_head head;
	uint64_t content[6];
};

_Static_assert(sizeof(struct object) == OBJECT_BYTES, "as in tables/dispose/memory.rs");

typedef void *(*allocate_function)(size_t size);

static struct object *fresh(allocate_function allocate)
{
	struct object *object = allocate(OBJECT_BYTES);

	if (!object)
		abort();
	*(volatile uint64_t *)&object->content[0] = 14;
	return object;
}

void sheaves_bench_dispose_enter(void)
{
	rcu_register_thread();
}

void sheaves_bench_dispose_leave(void)
{
	rcu_unregister_thread();
}

void sheaves_bench_dispose_call(size_t count, allocate_function allocate,
				void (*end)(struct rcu_head *head))
{
	while (count--)
		call_rcu(&fresh(allocate)->head, end);
}

void sheaves_bench_dispose_finish_call(void)
{
	rcu_barrier();
}

/* Once in the life of a thread: the library refuses to register one again. */
void sheaves_bench_dispose_open_ring(void)
{
	if (rcu_defer_register_thread())
		abort();
}

void sheaves_bench_dispose_close_ring(void)
{
	rcu_defer_unregister_thread();
}

void sheaves_bench_dispose_defer(size_t count, allocate_function allocate,
				 void (*end)(void *object))
{
	while (count--)
		defer_rcu(end, fresh(allocate));
}

void sheaves_bench_dispose_finish_defer(void)
{
	rcu_defer_barrier();
}
