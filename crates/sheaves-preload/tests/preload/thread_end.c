// Threads that allocate and free in destructors of their thread-specific values, in several rounds:
// libc calls a destructor again if it has set the value again.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { KEYS = 8, THREADS = 400, AT_ONCE = 8 };

static pthread_key_t keys[KEYS];

struct value {
    int key;
    int rounds;
    char *text;
};

static struct value *make(int key, int rounds) {
    struct value *value = malloc(sizeof *value);
    CHECK(value);
    value->key = key;
    value->rounds = rounds;
    value->text = strdup("allocated by a thread that ends");
    CHECK(value->text);
    return value;
}

static void destroy(void *argument) {
    struct value *value = argument;
    CHECK(!strcmp(value->text, "allocated by a thread that ends"));
    if (value->rounds > 0)
        CHECK(!pthread_setspecific(keys[value->key], make(value->key, value->rounds - 1)));
    void *blocks[50];
    for (int i = 0; i < 50; i++) CHECK(blocks[i] = calloc(1, (size_t)i * 40));
    for (int i = 0; i < 50; i++) free(blocks[i]);
    free(value->text);
    free(value);
}

static void *work(void *argument) {
    for (int key = 0; key < KEYS; key++)
        CHECK(!pthread_setspecific(keys[key], make(key, key % 3)));
    // Frees what another thread has allocated.
    free(argument);
    return malloc(123);
}

int main(void) {
    for (int key = 0; key < KEYS; key++) CHECK(!pthread_key_create(&keys[key], destroy));
    for (int round = 0; round < THREADS / AT_ONCE; round++) {
        pthread_t threads[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            CHECK(!pthread_create(&threads[i], NULL, work, malloc(77)));
        for (int i = 0; i < AT_ONCE; i++) {
            void *block;
            CHECK(!pthread_join(threads[i], &block));
            CHECK(block);
            free(block);
        }
    }
    return 0;
}
