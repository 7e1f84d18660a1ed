// Forks repeatedly while 8 threads allocate; every child allocates and frees. Argument: number of
// forks.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 8, LIVE = 64, CHILD_BLOCKS = 300, CHILD_SECONDS = 60 };

static atomic_int stop;

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static size_t size_of(uint32_t random) {
    if (random % 1000 == 0) return 1200000;
    if (random % 100 == 0) return 40000 + random % 100000;
    return random % 2000;
}

// A block whose first and last bytes hold its pattern.
static unsigned char *make(size_t size, unsigned char mark) {
    unsigned char *block = malloc(size + 2);
    CHECK(block);
    block[0] = block[size + 1] = mark;
    return block;
}

static void check(const unsigned char *block, size_t size, unsigned char mark) {
    CHECK(block[0] == mark && block[size + 1] == mark);
}

// Replaces random blocks of an array.
static void churn(uint32_t *state, int count, unsigned char mark) {
    unsigned char *blocks[LIVE] = {0};
    size_t sizes[LIVE] = {0};
    for (int i = 0; count < 0 ? !atomic_load(&stop) : i < count; i++) {
        uint32_t index = next(state) % LIVE;
        if (blocks[index]) {
            check(blocks[index], sizes[index], mark);
            free(blocks[index]);
        }
        sizes[index] = size_of(next(state));
        blocks[index] = make(sizes[index], mark);
        // Leaves some CPU time to the forking thread, which otherwise would wait for most of the
        // test.
        if (count < 0 && i % 256 == 0) usleep(500);
    }
    for (int index = 0; index < LIVE; index++) free(blocks[index]);
}

static void *work(void *argument) {
    uint32_t state = (uint32_t)(uintptr_t)argument;
    churn(&state, -1, (unsigned char)state);
    return NULL;
}

static void *work_in_child(void *argument) {
    uint32_t state = (uint32_t)(uintptr_t)argument;
    churn(&state, CHILD_BLOCKS, 7);
    return NULL;
}

static void child(uint32_t seed) {
    // A child that hangs is killed, which the parent detects.
    alarm(CHILD_SECONDS);
    uint32_t state = seed;
    churn(&state, CHILD_BLOCKS, 5);
    if (seed % 16 == 0) {
        // The child may have threads of its own, and children.
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, work_in_child, (void *)(uintptr_t)seed));
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            alarm(CHILD_SECONDS);
            churn(&state, CHILD_BLOCKS, 6);
            _exit(0);
        }
        int status;
        CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
        CHECK(!pthread_join(thread, NULL));
    }
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    int forks = atoi(arguments[1]);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, (void *)(i + 1)));
    // Allocated by the parent, to be freed by every child, too.
    unsigned char *inherited = make(1000, 9);
    for (int i = 0; i < forks; i++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            check(inherited, 1000, 9);
            free(inherited);
            child((uint32_t)i);
            if (i % 2) exit(0);
            _exit(0);
        }
        int status;
        CHECK(waitpid(process, &status, 0) == process);
        if (status != 0) fprintf(stderr, "child %d ended with status %#x\n", i, status);
        CHECK(status == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    free(inherited);
    return 0;
}
