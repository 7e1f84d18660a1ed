/* Loads and unloads a plugin. The library's thread, and threads of this program that have used the
 * plugin, are still there after that. Argument: the plugin. */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);       \
            _Exit(1);                                                             \
        }                                                                         \
    } while (0)

enum { ROUNDS = 20, CALLS = 1000 };

static void (*work)(void);
static sem_t has_worked, may_end;

static void *thread(void *unused)
{
    work();
    sem_post(&has_worked);
    sem_wait(&may_end);
    return unused;
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    CHECK(sem_init(&has_worked, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    for (size_t round = 1; round <= ROUNDS; round++) {
        void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        if (!plugin)
            fprintf(stderr, "%s\n", dlerror());
        CHECK(plugin);
        size_t (*called)(void);
        *(void **)&work = dlsym(plugin, "plugin_work");
        *(void **)&called = dlsym(plugin, "plugin_called");
        CHECK(work && called);
        pthread_t other;
        CHECK(pthread_create(&other, NULL, thread, NULL) == 0);
        sem_wait(&has_worked);
        work();
        CHECK(dlclose(plugin) == 0);
        /* What was deferred is called meanwhile. */
        usleep(5000 * round);
        sem_post(&may_end);
        CHECK(pthread_join(other, NULL) == 0);
        if (round == ROUNDS) {
            for (int i = 0; i < 1000 && called() != CALLS * ROUNDS; i++)
                usleep(10000);
            CHECK(called() == CALLS * ROUNDS);
        }
    }
    puts("ok");
    return 0;
}
