/* Nanoseconds, with the header and library that it is compiled with: for a read section with one
 * load, in each of two threads; for call_rcu of a node that lies ready; for malloc and call_rcu;
 * and for these until all is freed. `cargo xtask urcu-cost` compiles it with both libraries. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <urcu.h>

#define THREADS 2
#ifndef SECTIONS
#define SECTIONS 40000000L
#define NODES 1000000L
#endif

struct node {
    struct rcu_head head;
    long value;
};

static int value = 1, *shared = &value;
static pthread_barrier_t start;

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void read_often(long sections)
{
    long sum = 0;

    for (long i = 0; i < sections; i++) {
        rcu_read_lock();
        sum += *rcu_dereference(shared);
        rcu_read_unlock();
    }
    if (sum != sections)
        abort();
}

static void *reader(void *section_ns)
{
    double begin;

    rcu_register_thread();
    read_often(SECTIONS / 10);
    pthread_barrier_wait(&start);
    begin = now_ns();
    read_often(SECTIONS);
    *(double *)section_ns = (now_ns() - begin) / (double)SECTIONS;
    rcu_unregister_thread();
    return NULL;
}

static void free_node(struct rcu_head *head)
{
    free(caa_container_of(head, struct node, head));
}

static struct node *fresh(void)
{
    struct node *node = malloc(sizeof(*node));

    if (!node)
        abort();
    node->value = 1;
    return node;
}

/* Takes nodes that lie ready, or new ones. The time until all are called, and all are freed. */
static void free_often(struct node **ready, double *called_ns, double *freed_ns)
{
    double begin = now_ns();

    for (long i = 0; i < NODES; i++)
        call_rcu(&(ready ? ready[i] : fresh())->head, free_node);
    *called_ns = (now_ns() - begin) / (double)NODES;
    rcu_barrier();
    *freed_ns = (now_ns() - begin) / (double)NODES;
}

int main(void)
{
    static struct node *ready[NODES];
    double sections_ns[THREADS], section_ns = 0, call_ns, fresh_ns, freed_ns, unused_ns;
    pthread_t threads[THREADS];

    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, reader, &sections_ns[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        section_ns += sections_ns[i] / THREADS;
    }
    /* The first nodes are for warming up. */
    for (int i = 0; i < 2; i++)
        free_often(NULL, &fresh_ns, &freed_ns);
    for (long i = 0; i < NODES; i++)
        ready[i] = fresh();
    free_often(ready, &call_ns, &unused_ns);
    printf("%.3f %.3f %.3f %.3f\n", section_ns, call_ns, fresh_ns, freed_ns);
    return 0;
}
