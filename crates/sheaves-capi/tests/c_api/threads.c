/* Threads that pass objects on, read what others replace, defer frees and callbacks, and count. All
   of it is ordered, so ThreadSanitizer has nothing to report; with -DRACE one access is not. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "sheaves.h"

enum { THREADS = 4, ROUNDS = 20000, BOXES = 64 };

struct item {
    unsigned number, check;
};

struct route {
    struct sheaves_head head;
    unsigned hop, check;
};

static struct sheaves_cache *items;
static struct sheaves_counter called = SHEAVES_COUNTER_INIT;
static struct item *boxes[BOXES];
static unsigned *blocks[BOXES];
static struct route *current;
static pthread_mutex_t updating = PTHREAD_MUTEX_INITIALIZER;
static unsigned unordered;

static void free_route(struct sheaves_head *head)
{
    struct route *route = (struct route *)head;

    assert(route->check == ~route->hop);
    route->check = route->hop;
    sheaves_free(route);
    sheaves_counter_add(&called, 1);
}

static struct route *make_route(unsigned hop)
{
    struct route *route = sheaves_malloc(sizeof *route);

    assert(route);
    route->hop = hop;
    route->check = ~hop;
    return route;
}

/* Frees an item that another thread has allocated. */
static void exchange_item(unsigned number)
{
    struct item *item = sheaves_cache_alloc(items);

    assert(item && item->number == 0 && item->check == 0);
    item->number = number;
    item->check = ~number;
    item = __atomic_exchange_n(&boxes[number % BOXES], item, __ATOMIC_ACQ_REL);
    if (item) {
        assert(item->check == ~item->number);
        item->check = 0;
        sheaves_cache_free(items, item);
    }
}

/* The same with blocks that were zeroed, and have moved. */
static void exchange_block(unsigned number)
{
    unsigned *block = sheaves_calloc(4, sizeof *block);

    assert(block && block[3] == 0);
    block[0] = number;
    block = sheaves_realloc(block, 16 << number % 8);
    assert(block && block[0] == number);
    block[1] = ~number;
    block = __atomic_exchange_n(&blocks[number % BOXES], block, __ATOMIC_ACQ_REL);
    assert(!block || block[1] == ~block[0]);
    sheaves_free(block);
}

static void replace_route(unsigned number)
{
    struct route *old;

    pthread_mutex_lock(&updating);
    old = current;
    sheaves_rcu_assign_pointer(current, make_route(number));
    pthread_mutex_unlock(&updating);
    switch (number % 4) {
    case 0:
        assert(sheaves_call_rcu(&old->head, free_route) == 0);
        break;
    case 1:
        assert(sheaves_rcu_synchronize() == 0);
        old->check = old->hop;
        sheaves_free(old);
        break;
    default:
        sheaves_free_rcu(old);
    }
}

static void *work(void *argument)
{
    unsigned first = *(unsigned *)argument;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct route *route;

        exchange_item(round * THREADS + first);
        exchange_block(round * THREADS + first);
        sheaves_rcu_read_lock();
        route = sheaves_rcu_dereference(current);
        assert(route->check == ~route->hop);
        sheaves_rcu_read_unlock();
        if (round % 16 == 0)
            replace_route(round / 16);
#if defined(RACE)
        unordered++;
#endif
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];

    items = sheaves_cache_create("items", sizeof(struct item), 0, SHEAVES_CACHE_ZERO, NULL);
    assert(items);
    current = make_route(0);
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert(pthread_join(threads[i], NULL) == 0);
    assert(sheaves_rcu_barrier() == 0);
    assert(sheaves_counter_sum(&called) == THREADS * ((ROUNDS / 16 + 3) / 4));
    for (int i = 0; i < BOXES; i++) {
        sheaves_cache_free(items, boxes[i]);
        sheaves_free(blocks[i]);
    }
    sheaves_free(current);
    assert(sheaves_cache_destroy(items) == 0);
    sheaves_counter_destroy(&called);
    puts(unordered == 1 ? "" : "ok");
    return 0;
}
