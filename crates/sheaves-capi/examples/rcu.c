/* Readers without locks, and a writer that waits until no reader uses the old value. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "sheaves.h"

/* How often the writer replaces the route. */
#ifndef HOPS
#define HOPS 2000
#endif

struct route {
    unsigned hop, check;
};

static struct route *current;
static int is_over;

static void *read_routes(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        struct route *route;

        sheaves_rcu_read_lock();
        route = sheaves_rcu_dereference(current);
        assert(route->check == ~route->hop);
        sheaves_rcu_read_unlock();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    sheaves_rcu_cookie cookie;

    for (unsigned hop = 0; hop < HOPS; hop++) {
        struct route *old = current, *route = sheaves_malloc(sizeof *route);

        assert(route);
        route->hop = hop;
        route->check = ~hop;
        sheaves_rcu_assign_pointer(current, route);
        if (hop == 0)
            for (int i = 0; i < 2; i++)
                assert(pthread_create(&threads[i], NULL, read_routes, NULL) == 0);
        assert((hop & 1 ? sheaves_rcu_synchronize() : sheaves_rcu_synchronize_expedited()) == 0);
        if (old)
            old->check = old->hop;
        sheaves_free(old);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);

    cookie = sheaves_rcu_start_poll();
    while (!sheaves_rcu_poll(cookie))
        ;
    assert(sheaves_rcu_wait(cookie) == 0 && sheaves_rcu_wait(cookie + 1000) == EINVAL);
    sheaves_rcu_read_lock();
    sheaves_rcu_read_lock();
    assert(sheaves_rcu_is_reading());
    sheaves_rcu_read_unlock();
    assert(sheaves_rcu_is_reading());
    sheaves_rcu_read_unlock();
    assert(!sheaves_rcu_is_reading());
    /* Idle: grace periods need not interrupt the CPU of this thread. */
    sheaves_rcu_enter_idle();
    sheaves_rcu_expedite_begin();
    assert(sheaves_rcu_expedite_end() == 0 && sheaves_rcu_expedite_end() == EINVAL);
    sheaves_free(current);
    puts("ok");
    return 0;
}
