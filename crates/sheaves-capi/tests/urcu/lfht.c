/* liburcu's own hash table on this flavour: four threads add, replace, delete and look up while it
 * is resized. At the end all counts must be exact. Argument: milliseconds. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <urcu.h>
#include <urcu/rculfhash.h>

#define THREADS 4
#define KEYS 20000

struct node {
    struct cds_lfht_node node;
    struct rcu_head head;
    unsigned key;
};

static struct cds_lfht *table;
static int is_over;
static long added, deleted, replaced, freed, found, missed;

static unsigned long hash(unsigned key)
{
    return key * 0x9E3779B97F4A7C15UL >> 13;
}

static int is_equal(struct cds_lfht_node *node, const void *key)
{
    return caa_container_of(node, struct node, node)->key == *(const unsigned *)key;
}

static void free_node(struct rcu_head *head)
{
    struct node *node = caa_container_of(head, struct node, head);

    node->key = ~0U;
    __atomic_add_fetch(&freed, 1, __ATOMIC_RELAXED);
    free(node);
}

static struct node *make(unsigned key)
{
    struct node *node = malloc(sizeof *node);

    assert(node);
    node->key = key;
    cds_lfht_node_init(&node->node);
    return node;
}

static void *work(void *seed)
{
    unsigned long state = (unsigned long)seed * 2654435761UL + 1;
    long adds = 0, dels = 0, repls = 0, hits = 0, misses = 0;

    rcu_register_thread();
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        struct cds_lfht_iter iter;
        struct cds_lfht_node *old;
        unsigned key, what;

        state = state * 6364136223846793005UL + 1442695040888963407UL;
        key = (state >> 33) % KEYS;
        what = (state >> 20) % 4;
        rcu_read_lock();
        cds_lfht_lookup(table, hash(key), is_equal, &key, &iter);
        old = cds_lfht_iter_get_node(&iter);
        if (old) {
            assert(caa_container_of(old, struct node, node)->key == key);
            hits++;
        } else {
            misses++;
        }
        if (what == 0) {
            struct node *node = make(key);

            if (cds_lfht_add_unique(table, hash(key), is_equal, &key, &node->node) == &node->node)
                adds++;
            else
                free(node);
        } else if (what == 1 && old) {
            if (cds_lfht_del(table, old) == 0) {
                dels++;
                call_rcu(&caa_container_of(old, struct node, node)->head, free_node);
            }
        } else if (what == 2) {
            struct node *node = make(key);

            old = cds_lfht_add_replace(table, hash(key), is_equal, &key, &node->node);
            if (old) {
                repls++;
                call_rcu(&caa_container_of(old, struct node, node)->head, free_node);
            } else {
                adds++;
            }
        }
        rcu_read_unlock();
    }
    __atomic_add_fetch(&added, adds, __ATOMIC_RELAXED);
    __atomic_add_fetch(&deleted, dels, __ATOMIC_RELAXED);
    __atomic_add_fetch(&replaced, repls, __ATOMIC_RELAXED);
    __atomic_add_fetch(&found, hits, __ATOMIC_RELAXED);
    __atomic_add_fetch(&missed, misses, __ATOMIC_RELAXED);
    rcu_unregister_thread();
    return NULL;
}

int main(int argc, char **argv)
{
    long ms = argc > 1 ? atol(argv[1]) : 1000, resizes = 0, before, after;
    struct timespec begin, now, nap = { 0, 3000000 };
    struct cds_lfht_iter iter;
    struct cds_lfht_node *left;
    pthread_t threads[THREADS];
    unsigned long count, walked = 0;

    rcu_register_thread();
    table = cds_lfht_new_flavor(1, 1, 0, CDS_LFHT_AUTO_RESIZE | CDS_LFHT_ACCOUNTING, &rcu_flavor,
                                NULL);
    assert(table);
    for (long i = 0; i < THREADS; i++)
        assert(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        nanosleep(&nap, NULL);
        cds_lfht_resize(table, 1UL << (4 + resizes++ % 12));
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 < ms);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    rcu_barrier();
    assert(freed == deleted + replaced);

    rcu_read_lock();
    cds_lfht_count_nodes(table, &before, &count, &after);
    cds_lfht_for_each(table, &iter, left) {
        walked++;
        assert(cds_lfht_del(table, left) == 0);
        call_rcu(&caa_container_of(left, struct node, node)->head, free_node);
    }
    rcu_read_unlock();
    rcu_barrier();
    printf("%ld added, %ld deleted, %ld replaced, %ld found, %ld missed, %ld resizes, %lu left\n",
           added, deleted, replaced, found, missed, resizes, count);
    assert(count == (unsigned long)(added - deleted) && walked == count);
    assert(freed == added + replaced);
    assert(added && deleted && replaced && found && missed && resizes);
    assert(cds_lfht_destroy(table, NULL) == 0);
    rcu_unregister_thread();
    puts("ok");
    return 0;
}
