/* A pipeline of ten stages, as in rcutorture, for the flavour of FLAVOR_HEADER.
 *
 * Updaters replace the current element. With each grace period the old one advances one stage, and
 * after the last it returns to the free list. A reader that sees its element advance two stages or
 * more was not waited for by a grace period.
 *
 * Arguments: milliseconds, and where callbacks are directed: global, cpu, thread. */
#define _GNU_SOURCE
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include FLAVOR_HEADER

#ifdef WITHOUT_READERS
/* Readers without read sections: this program must detect that. */
#undef rcu_read_lock
#undef rcu_read_unlock
#undef rcu_read_ongoing
#define rcu_read_lock() ((void)0)
#define rcu_read_unlock() ((void)0)
#define rcu_read_ongoing() 1
#endif

#define STAGES 10
#define ELEMENTS (10 * STAGES)
#define READERS 3

struct element {
    int stage;
    int is_out;
    /* Not atomic: a sanitizer sees whether grace periods order it. */
    long uses;
    struct rcu_head head;
};

static struct element elements[ELEMENTS], *current;
static pthread_mutex_t pool = PTHREAD_MUTEX_INITIALIZER;
static struct element *free_ones[ELEMENTS];
static int free_count, is_over, called_later;
static long counts[STAGES + 1], reads, called, synchronized, polled, failed;

static struct element *take(void)
{
    struct element *found = NULL;

    pthread_mutex_lock(&pool);
    if (free_count)
        found = free_ones[--free_count];
    pthread_mutex_unlock(&pool);
    if (found) {
        assert(!__atomic_exchange_n(&found->is_out, 1, __ATOMIC_RELAXED));
        __atomic_store_n(&found->stage, 0, __ATOMIC_RELAXED);
        found->uses++;
    }
    return found;
}

/* Advances an element by one stage; true if it was the last one. */
static int advance(struct element *element)
{
    if (__atomic_add_fetch(&element->stage, 1, __ATOMIC_RELAXED) < STAGES)
        return 0;
    assert(__atomic_exchange_n(&element->is_out, 0, __ATOMIC_RELAXED));
    pthread_mutex_lock(&pool);
    assert(free_count < ELEMENTS);
    free_ones[free_count++] = element;
    pthread_mutex_unlock(&pool);
    return 1;
}

static void call(struct rcu_head *head)
{
    struct element *element = caa_container_of(head, struct element, head);

    __atomic_add_fetch(&called, 1, __ATOMIC_RELAXED);
    if (advance(element))
        __atomic_sub_fetch(&called_later, 1, __ATOMIC_RELAXED);
    else
        call_rcu(&element->head, call);
}

static void *read_on(void *unused)
{
    unsigned long round = 0;

    (void)unused;
    rcu_register_thread();
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        struct element *element;
        int stage, nested = ++round % 7 == 0;

        rcu_read_lock();
        if (nested)
            rcu_read_lock();
        assert(rcu_read_ongoing());
        element = rcu_dereference(current);
        if (round % 64 == 0)
            for (int i = 0; i < 300; i++)
                __asm__ volatile("" ::: "memory");
        if (round % 4096 == 0)
            sched_yield();
        assert(element->uses > 0);
        stage = __atomic_load_n(&element->stage, __ATOMIC_RELAXED);
        __atomic_add_fetch(&counts[stage > STAGES ? STAGES : stage], 1, __ATOMIC_RELAXED);
        if (nested)
            rcu_read_unlock();
        rcu_read_unlock();
        rcu_quiescent_state();
        if (round % 1000 == 0) {
            rcu_thread_offline();
            rcu_thread_online();
        }
        if (round % 100000 == 0) {
            rcu_unregister_thread();
            rcu_register_thread();
        }
    }
    __atomic_add_fetch(&reads, (long)round, __ATOMIC_RELAXED);
    rcu_unregister_thread();
    return NULL;
}

/* Replaces elements; the argument is the way to wait. */
static void *update(void *way)
{
    rcu_register_thread();
    if (!strcmp(way, "thread")) {
        set_thread_call_rcu_data(create_call_rcu_data(URCU_CALL_RCU_RT, -1));
        way = "call";
    }
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        struct element *fresh = NULL, *old;

        rcu_quiescent_state();
        /* Callbacks are slow: they leave half of the elements to other updaters. */
        if (strcmp(way, "call") || __atomic_load_n(&called_later, __ATOMIC_RELAXED) < ELEMENTS / 2)
            fresh = take();
        if (!fresh) {
            __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
            rcu_thread_offline();
            sched_yield();
            rcu_thread_online();
            continue;
        }
        old = rcu_xchg_pointer(&current, fresh);
        __atomic_add_fetch(&old->stage, 1, __ATOMIC_RELAXED);
        if (!strcmp(way, "call")) {
            __atomic_add_fetch(&called_later, 1, __ATOMIC_RELAXED);
            call_rcu(&old->head, call);
            continue;
        }
        do {
            if (!strcmp(way, "wait")) {
                synchronize_rcu();
                __atomic_add_fetch(&synchronized, 1, __ATOMIC_RELAXED);
            } else {
                struct urcu_gp_poll_state state = start_poll_synchronize_rcu();

                while (!poll_state_synchronize_rcu(state)) {
                    rcu_quiescent_state();
                    sched_yield();
                }
                __atomic_add_fetch(&polled, 1, __ATOMIC_RELAXED);
            }
        } while (!advance(old));
    }
    if (get_thread_call_rcu_data()) {
        struct call_rcu_data *data = get_thread_call_rcu_data();

        set_thread_call_rcu_data(NULL);
        call_rcu_data_free(data);
    }
    rcu_unregister_thread();
    return NULL;
}

int main(int argc, char **argv)
{
    long ms = argc > 1 ? atol(argv[1]) : 1000;
    const char *where = argc > 2 ? argv[2] : "global";
    struct timespec time = { ms / 1000, ms % 1000 * 1000000 };
    void *ways[3] = { strcmp(where, "thread") ? "call" : "thread", "wait", "poll" };
    pthread_t threads[READERS + 3];
    long bad = 0;

    for (int i = 0; i < ELEMENTS; i++)
        free_ones[free_count++] = &elements[i];
    current = take();
    if (!strcmp(where, "cpu"))
        assert(create_all_cpu_call_rcu_data(0) == 0 && get_cpu_call_rcu_data(0));
    for (int i = 0; i < READERS; i++)
        assert(pthread_create(&threads[i], NULL, read_on, NULL) == 0);
    for (int i = 0; i < 3; i++)
        assert(pthread_create(&threads[READERS + i], NULL, update, ways[i]) == 0);
    nanosleep(&time, NULL);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < READERS + 3; i++)
        pthread_join(threads[i], NULL);
    /* Each barrier advances deferred elements by one stage. */
    for (int i = 0; i <= STAGES; i++)
        rcu_barrier();
    if (!strcmp(where, "cpu"))
        free_all_cpu_call_rcu_data();
    for (int i = 2; i <= STAGES; i++)
        bad += counts[i];
    printf("%ld reads, %ld of them one stage on; %ld called, %ld waits, %ld polls, %ld without\n",
           reads, counts[1], called, synchronized, polled, failed);
    printf("%ld too late, %d of %d back\n", bad, free_count + 1, ELEMENTS);
    fflush(stdout);
    assert(reads && called && synchronized && polled);
    if (bad || free_count + 1 != ELEMENTS)
        return 1;
    puts("ok");
    return 0;
}
