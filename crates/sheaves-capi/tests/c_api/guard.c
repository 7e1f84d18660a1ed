/* A reader that keeps a pointer after the grace period of what it points to. The first argument is
 * the call that defers; SHEAVES_GUARD has it end in a report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FLAVOR_HEADER
#include FLAVOR_HEADER
#endif
#include "sheaves.h"

#define NOINLINE __attribute__((noinline, noclone))
/* The call must not be the last thing that a function does: it would become a jump. */
#define STAY() __asm__ volatile("")

struct node {
#ifdef FLAVOR_HEADER
    struct rcu_head head;
#else
    sheaves_head head;
#endif
    /* At this size each block is a sample at one in 1024 bytes. */
    char contents[30000];
};

#ifdef FLAVOR_HEADER
NOINLINE void free_node(struct rcu_head *head)
{
    sheaves_free(head);
    STAY();
}

NOINLINE void free_pointer(void *node)
{
    free_node(node);
    STAY();
}

NOINLINE void defer_node(struct node *node, const char *call)
{
    if (!strcmp(call, "defer"))
        defer_rcu(free_pointer, node);
    else
        call_rcu(&node->head, free_node);
    STAY();
}
#else
NOINLINE void free_node(sheaves_head *head)
{
    sheaves_free(head);
    STAY();
}

static sheaves_srcu *domain;

NOINLINE void defer_node(struct node *node, const char *call)
{
    if (!strcmp(call, "call"))
        sheaves_call_rcu(&node->head, free_node);
    else if (!strcmp(call, "hurry"))
        sheaves_call_rcu_hurry(&node->head, free_node);
    else if (!strcmp(call, "srcu"))
        sheaves_srcu_call(domain, &node->head, free_node);
    else if (!strcmp(call, "head"))
        sheaves_free_rcu_head(node, &node->head);
    else
        sheaves_free_rcu(node);
    STAY();
}
#endif

NOINLINE struct node *make_node(void)
{
    struct node *node = sheaves_malloc(sizeof(struct node));
    if (!node)
        abort();
    memset(node, 0, sizeof(*node));
    return node;
}

NOINLINE int read_late(const volatile struct node *node)
{
    int found = node->contents[77];
    STAY();
    return found;
}

int main(int count, char **arguments)
{
    const char *call = count > 1 ? arguments[1] : "";
    struct node *node = make_node();
#ifdef FLAVOR_HEADER
    rcu_register_thread();
    rcu_read_lock();
    /* In time. */
    defer_node(node, call);
    read_late(node);
    rcu_read_unlock();
    /* Otherwise a flavour with quiescent states would wait for this thread. */
    rcu_barrier();
    rcu_read_lock();
    return read_late(node);
#else
    domain = sheaves_srcu_create();
    sheaves_rcu_read_lock();
    defer_node(node, call);
    read_late(node);
    sheaves_rcu_read_unlock();
    sheaves_rcu_barrier();
    sheaves_srcu_barrier(domain);
    if (!strcmp(call, "outside"))
        return read_late(node);
    sheaves_rcu_read_lock();
    return read_late(node);
#endif
}
