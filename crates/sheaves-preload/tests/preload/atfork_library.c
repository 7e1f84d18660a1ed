// A library whose fork handlers allocate, and wait for threads that allocate. It is initialised
// before the preload object.
#include <pthread.h>
#include <string.h>

#include "check.h"

enum { BLOCKS = 3000, THREAD_BLOCKS = 300 };

int handlers_run;

static void allocate(int count, size_t bytes) {
    void **blocks = malloc((size_t)count * sizeof *blocks);
    CHECK(blocks);
    for (int i = 0; i < count; i++) {
        CHECK(blocks[i] = malloc(bytes));
        memset(blocks[i], i, bytes);
    }
    for (int i = 0; i < count; i++) free(blocks[i]);
    free(blocks);
    // A block with a mapping of its own.
    free(malloc(1 << 21));
}

static void *work(void *argument) {
    (void)argument;
    allocate(THREAD_BLOCKS, 500);
    return NULL;
}

static void handler(void) {
    allocate(BLOCKS, 40 + (size_t)handlers_run % 100 * 10);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, work, NULL));
    CHECK(!pthread_join(thread, NULL));
    handlers_run++;
}

__attribute__((constructor)) static void load(void) {
    CHECK(!pthread_atfork(handler, handler, handler));
}
