/* Per-CPU memory and counters: additions without an atomic instruction, sums over all slots. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "sheaves.h"

static sheaves_counter requests = SHEAVES_COUNTER_INIT;
static sheaves_percpu traffic; /* two words: packets and bytes */

static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100000; i++) {
        sheaves_counter_add(&requests, 1);
        sheaves_percpu_add(traffic, 0, 1);
        sheaves_percpu_add(traffic, 8, 1500);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];

    assert(sheaves_percpu_alloc(16, 8, &traffic) == 0);
    for (int i = 0; i < 4; i++)
        assert(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert(sheaves_counter_sum(&requests) == 400000);
    assert(sheaves_percpu_sum(traffic, 0) == 400000);
    assert(sheaves_percpu_sum(traffic, 8) == 600000000);
    assert(sheaves_percpu_address(traffic, sheaves_slot_count()));
    assert(!sheaves_percpu_address(traffic, sheaves_slot_count() + 1));
    /* No word begins at this offset. */
    assert(sheaves_percpu_add(traffic, 12, 1) == EINVAL);
    assert(sheaves_percpu_add(traffic, 16, 1) == EINVAL);
    assert(sheaves_percpu_add(0, 0, 1) == EINVAL);
    assert(sheaves_percpu_free(traffic) == 0);
    assert(sheaves_percpu_free(traffic) == EINVAL);
    sheaves_counter_destroy(&requests);
    assert(sheaves_counter_sum(&requests) == 0);
    puts("ok");
    return 0;
}
