/* Loads and unloads the library a thousand times while threads use it: no growth, no crash.
 * Argument: the library. */
#define _GNU_SOURCE
#include <assert.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *library;
static int is_over;
static long uses;

static long resident_kib(void)
{
    char line[256];
    long found = -1;
    FILE *file = fopen("/proc/self/status", "r");

    assert(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &found) == 1)
            break;
    fclose(file);
    return found;
}

static void use_once(void)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *(*allocate)(size_t);
    void (*release)(void *), (*lock)(void), (*unlock)(void);
    int (*synchronize)(void);

    if (!handle)
        puts(dlerror());
    assert(handle);
    *(void **)&allocate = dlsym(handle, "sheaves_malloc");
    *(void **)&release = dlsym(handle, "sheaves_free");
    *(void **)&lock = dlsym(handle, "sheaves_rcu_read_lock");
    *(void **)&unlock = dlsym(handle, "sheaves_rcu_read_unlock");
    *(void **)&synchronize = dlsym(handle, "sheaves_rcu_synchronize");
    assert(allocate && release && lock && unlock && synchronize);
    for (int i = 0; i < 50; i++) {
        char *block = allocate(100 + i);

        assert(block);
        memset(block, i, 100 + i);
        lock();
        unlock();
        release(block);
    }
    assert(synchronize() == 0);
    assert(dlclose(handle) == 0);
    __atomic_add_fetch(&uses, 1, __ATOMIC_RELAXED);
}

static void *work(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        use_once();
        usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    long begin, end;

    assert(argc == 2);
    library = argv[1];
    for (int i = 0; i < 3; i++)
        assert(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 100; i++)
        use_once();
    begin = resident_kib();
    for (int i = 0; i < 1000; i++)
        use_once();
    end = resident_kib();
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%ld uses, %ld KiB, then %ld KiB\n", uses, begin, end);
    if (end > begin + 1024)
        return 1;
    puts("ok");
    return 0;
}
