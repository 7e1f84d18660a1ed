/* Deferred callbacks and deferred frees. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "sheaves.h"

struct object {
    int value;
    sheaves_head head;
};

static int sum;

static void add(sheaves_head *head)
{
    struct object *object = (struct object *)((char *)head - offsetof(struct object, head));

    sum += object->value;
    sheaves_free(object);
}

int main(void)
{
    for (int i = 1; i <= 1000; i++) {
        struct object *object = sheaves_calloc(1, sizeof *object);

        assert(object);
        object->value = i;
        sheaves_rcu_read_lock();
        if (i % 100)
            assert(sheaves_call_rcu(&object->head, add) == 0);
        else
            assert(sheaves_call_rcu_hurry(&object->head, add) == 0);
        sheaves_rcu_read_unlock();
    }
    for (int i = 0; i < 1000; i++) {
        struct object *object = sheaves_calloc(1, sizeof *object);

        assert(object);
        if (i % 2)
            sheaves_free_rcu(object);
        else
            assert(sheaves_free_rcu_head(object, &object->head) == 0);
    }
    assert(sheaves_call_rcu(NULL, add) == EINVAL);
    assert(sheaves_rcu_barrier() == 0);
    assert(sum == 500500);

    sheaves_rcu_read_lock();
    assert(sheaves_rcu_barrier() == EDEADLK);
    assert(sheaves_rcu_synchronize() == EDEADLK);
    sheaves_rcu_read_unlock();
    sheaves_rcu_flush();
    puts("ok");
    return 0;
}
