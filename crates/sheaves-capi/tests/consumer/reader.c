/* A program for liburcu, on the installed headers. */
#include <stdio.h>
#include <stdlib.h>

#include <urcu.h>

struct value {
    int number;
    struct rcu_head head;
};

static struct value *current;
static int freed;

static void free_value(struct rcu_head *head)
{
    free(caa_container_of(head, struct value, head));
    freed++;
}

int main(void)
{
    struct value *value = malloc(sizeof *value);
    int found;

    if (!value)
        return 1;
    rcu_register_thread();
    value->number = 7;
    rcu_assign_pointer(current, value);
    rcu_read_lock();
    found = rcu_dereference(current)->number;
    rcu_read_unlock();
    call_rcu(&rcu_xchg_pointer(&current, NULL)->head, free_value);
    rcu_barrier();
    rcu_unregister_thread();
    if (found != 7 || freed != 1)
        return 1;
    puts("ok");
    return 0;
}
