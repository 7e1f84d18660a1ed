/* Forks with and without the three calls around them: parent and child both continue, and callbacks
 * that were pending run in both. */
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include FLAVOR_HEADER

static int is_over, called, deferred, is_on_valgrind;

static void count(struct rcu_head *head)
{
    __atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
    free(head);
}

static void count_plain(void *unused)
{
    (void)unused;
    __atomic_add_fetch(&deferred, 1, __ATOMIC_RELAXED);
}

static void *disturb(void *unused)
{
    (void)unused;
    rcu_register_thread();
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        rcu_read_lock();
        rcu_read_unlock();
        rcu_quiescent_state();
        /* It runs one thread at a time. */
        if (is_on_valgrind)
            sched_yield();
    }
    rcu_unregister_thread();
    return NULL;
}

static void defer(int calls)
{
    for (int i = 0; i < calls; i++) {
        call_rcu(malloc(sizeof(struct rcu_head)), count);
        defer_rcu(count_plain, NULL);
    }
}

int main(void)
{
    pthread_t threads[2];
    int before = 0, rounds;

    is_on_valgrind = getenv("ON_VALGRIND") != NULL;
    rounds = is_on_valgrind ? 12 : 60;
    rcu_register_thread();
    assert(rcu_defer_register_thread() == 0);
    for (int i = 0; i < 2; i++)
        assert(pthread_create(&threads[i], NULL, disturb, NULL) == 0);
    /* Every other one without the three calls. */
    for (int round = 0; round < rounds; round++) {
        int has_calls = round % 2, status, calls, plain;
        pid_t child;

        defer(10);
        before += 10;
        if (has_calls)
            call_rcu_before_fork();
        child = fork();
        assert(child >= 0);
        if (child == 0) {
            if (has_calls)
                call_rcu_after_fork_child();
            alarm(20);
            defer(5);
            synchronize_rcu();
            rcu_barrier();
            calls = __atomic_load_n(&called, __ATOMIC_RELAXED);
            plain = __atomic_load_n(&deferred, __ATOMIC_RELAXED);
            /* The callback that the library's thread was running at the fork does not run again. */
            _exit(calls < before + 4 || calls > before + 5 || plain < before + 4);
        }
        if (has_calls)
            call_rcu_after_fork_parent();
        assert(waitpid(child, &status, 0) == child);
        if (status != 0) {
            printf("round %d: child ended with %#x\n", round, status);
            return 1;
        }
        rcu_quiescent_state();
    }
    rcu_barrier();
    rcu_defer_barrier();
    assert(called == before && deferred == before);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    rcu_thread_offline();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    rcu_thread_online();
    rcu_defer_unregister_thread();
    rcu_unregister_thread();
    puts("ok");
    return 0;
}
