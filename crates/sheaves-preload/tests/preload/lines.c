// Two threads that replace small blocks of their own come to write to different cache lines, also
// after they have changed CPUs.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 2, LIVE = 1024, BURST = 64, LINE_BYTES = 64, PATIENCE_S = 40 };

static struct {
    char *block;
    size_t bytes;
} blocks[THREADS][LIVE];
static pthread_t threads[THREADS];
static size_t bytes_max;
static int first_cpu[THREADS];
static atomic_int is_asked, waiting, is_over;

static uint64_t next(uint64_t *random) {
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random >> 20;
}

// So many blocks of another size that a slow path is taken, as in any program now and then.
static void use_others(void) {
    static _Thread_local char *others[256];
    for (int i = 0; i < 256; i++) CHECK((others[i] = malloc(2000)) != NULL);
    for (int i = 0; i < 256; i++) free(others[i]);
}

// Bursts of frees, each with as many allocations.
static void *replace(void *number) {
    size_t me = (size_t)number, free_places[BURST];
    uint64_t random = 88172645463325252u + me;
    for (size_t i = 0; i < LIVE; i++) {
        CHECK((blocks[me][i].block = malloc(8)) != NULL);
        blocks[me][i].bytes = 8;
    }
    for (int round = 0; !is_over; round++) {
        if (round % 64 == 0) use_others();
        for (int k = 0; k < BURST; k++) {
            free_places[k] = next(&random) % LIVE;
            free(blocks[me][free_places[k]].block);
            blocks[me][free_places[k]].block = NULL;
        }
        for (int k = 0; k < BURST; k++) {
            size_t i = free_places[k], bytes = 1 + next(&random) % bytes_max;
            if (blocks[me][i].block == NULL) {
                CHECK((blocks[me][i].block = malloc(bytes)) != NULL);
                blocks[me][i].bytes = bytes;
            }
            memset(blocks[me][i].block, (int)me, blocks[me][i].bytes);
        }
        while (is_asked) {
            waiting++;
            while (is_asked) sched_yield();
            waiting--;
        }
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

// Percent of the blocks whose line has a block of the other thread, too.
static int shared_percent(void) {
    static uint64_t lines[THREADS * LIVE];
    is_asked = 1;
    while (waiting < THREADS) sched_yield();
    for (size_t t = 0; t < THREADS; t++) {
        for (size_t i = 0; i < LIVE; i++) {
            lines[t * LIVE + i] = (uintptr_t)blocks[t][i].block / LINE_BYTES * 2 + t;
        }
    }
    is_asked = 0;
    while (waiting > 0) sched_yield();
    qsort(lines, THREADS * LIVE, sizeof *lines, compare);
    int shared = 0;
    for (size_t i = 0, end; i < THREADS * LIVE; i = end) {
        for (end = i; end < THREADS * LIVE && lines[end] / 2 == lines[i] / 2;) end++;
        if (lines[i] != lines[end - 1]) shared += (int)(end - i);
    }
    return shared * 100 / (THREADS * LIVE);
}

static void bind_to(size_t thread, int cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    CHECK(pthread_setaffinity_np(threads[thread], sizeof cpus, &cpus) == 0);
}

static void expect_separate_lines(void) {
    struct timespec pause = {0, 20000000};
    for (int rounds = PATIENCE_S * 50; shared_percent() > 5; rounds--) {
        CHECK(rounds > 0);
        nanosleep(&pause, NULL);
    }
}

int main(int count, char **words) {
    CHECK(count == 2);
    bytes_max = (size_t)atoi(words[1]);
    cpu_set_t allowed;
    CHECK(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    int cpus = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus < THREADS; cpu++) {
        if (CPU_ISSET(cpu, &allowed)) first_cpu[cpus++] = cpu;
    }
    if (cpus < THREADS) return 0;
    for (size_t t = 0; t < THREADS; t++) {
        CHECK(pthread_create(&threads[t], NULL, replace, (void *)t) == 0);
        bind_to(t, first_cpu[t]);
    }
    expect_separate_lines();
    for (size_t swaps = 1; swaps <= 21; swaps++) {
        usleep(2000);
        bind_to(0, first_cpu[swaps % 2]);
        bind_to(1, first_cpu[1 - swaps % 2]);
    }
    expect_separate_lines();
    // Both on one CPU, then one of them moves.
    bind_to(0, first_cpu[0]);
    bind_to(1, first_cpu[0]);
    usleep(100000);
    bind_to(1, first_cpu[1]);
    expect_separate_lines();
    is_over = 1;
    for (size_t t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    return 0;
}
