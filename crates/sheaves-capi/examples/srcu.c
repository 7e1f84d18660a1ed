/* An SRCU domain, whose sections may sleep and end in another thread, and its callbacks. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "sheaves.h"

static sheaves_srcu *domain;
static int is_left;

static void *leave(void *section)
{
    usleep(20000);
    __atomic_store_n(&is_left, 1, __ATOMIC_RELAXED);
    sheaves_srcu_read_unlock(domain, *(sheaves_srcu_section *)section);
    return NULL;
}

struct object {
    int number;
    sheaves_head head;
};

static int sum;

static void add(sheaves_head *head)
{
    struct object *object = (struct object *)((char *)head - offsetof(struct object, head));

    sum += object->number;
    sheaves_free(object);
}

/* Frees an object of the domain when its readers have left. */
static void schedule(int number)
{
    struct object *object = sheaves_calloc(1, sizeof *object);

    assert(object);
    object->number = number;
    assert(sheaves_srcu_call(domain, &object->head, add) == 0);
}

static void wait_in_callback(sheaves_head *head)
{
    (void)head;
    assert(sheaves_srcu_barrier(domain) == EDEADLK);
    sum = -1;
}

static void callbacks(void)
{
    static sheaves_head again;
    sheaves_srcu_section section = sheaves_srcu_read_lock(domain);

    for (int number = 1; number <= 100; number++)
        schedule(number);
    /* Neither waits for the section, nor for the callbacks. */
    assert(sheaves_rcu_barrier() == 0 && sum == 0);
    sheaves_srcu_read_unlock(domain, section);
    assert(sheaves_srcu_barrier(domain) == 0 && sum == 5050);

    assert(sheaves_srcu_call(domain, &again, wait_in_callback) == 0);
    assert(sheaves_srcu_barrier(domain) == 0 && sum == -1);
    sheaves_rcu_read_lock();
    assert(sheaves_srcu_barrier(domain) == EDEADLK);
    sheaves_rcu_read_unlock();
    assert(sheaves_srcu_barrier(NULL) == EINVAL);
    assert(sheaves_srcu_call(NULL, &again, add) == EINVAL);
    assert(sheaves_srcu_call(domain, NULL, add) == EINVAL);
    assert(sheaves_srcu_call(domain, &again, NULL) == EINVAL);
}

int main(void)
{
    sheaves_srcu_section section;
    pthread_t thread;

    domain = sheaves_srcu_create();
    assert(domain);
    section = sheaves_srcu_read_lock(domain);
    assert(pthread_create(&thread, NULL, leave, &section) == 0);
    assert(sheaves_srcu_synchronize(domain) == 0);
    assert(__atomic_load_n(&is_left, __ATOMIC_RELAXED));
    pthread_join(thread, NULL);
    callbacks();
    sum = 0;
    schedule(7);
    /* Runs the callback first. */
    sheaves_srcu_destroy(domain);
    assert(sum == 7);
    assert(sheaves_srcu_synchronize(NULL) == EINVAL);
    puts("ok");
    return 0;
}
