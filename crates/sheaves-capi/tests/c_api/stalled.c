/* A reader sleeps in a function that is exported; the report of the stall names it. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "sheaves.h"

static int is_reading, is_over;

__attribute__((noinline)) void sleeping_reader(void);
__attribute__((noinline)) void reading_thread(void);

void sleeping_reader(void)
{
    sheaves_rcu_read_lock();
    __atomic_store_n(&is_reading, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
        sleep(60);
    sheaves_rcu_read_unlock();
}

void reading_thread(void)
{
    sleeping_reader();
    /* So that the call above is none in tail position. */
    __asm__ volatile("");
}

static void *run(void *unused)
{
    reading_thread();
    return unused;
}

static void *update(void *unused)
{
    sheaves_rcu_synchronize();
    return unused;
}

int main(void)
{
    pthread_t reader, updater;
    pthread_create(&reader, NULL, run, NULL);
    while (!__atomic_load_n(&is_reading, __ATOMIC_SEQ_CST))
        usleep(1000);
    pthread_create(&updater, NULL, update, NULL);
    /* The test ends this program when it has read the report. */
    pthread_join(updater, NULL);
    return 1;
}
