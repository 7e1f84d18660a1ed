/* An SRCU domain, whose sections may sleep and end in another thread. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
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
    sheaves_srcu_destroy(domain);
    assert(sheaves_srcu_synchronize(NULL) == EINVAL);
    puts("ok");
    return 0;
}
