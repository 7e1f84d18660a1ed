/* A program that changes its environment while its threads allocate, defer and wait. The threads
 * of the program do not read it, so nothing may.
 *
 * First `environ` points to memory that cannot be read: the first look ends the process. Then the
 * variables are replaced and freed all the time. With -DAPI it uses the C API, and prints `ok`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#ifdef API
#include "sheaves.h"
#define ALLOC sheaves_malloc
#define FREE sheaves_free
#else
#include <malloc.h>
#define ALLOC malloc
#define FREE free
#endif

extern char **environ;

enum { THREADS = 3, BLOCKS = 4000, ROUNDS = 40 };

static int is_over;

#ifdef API
struct node {
    struct sheaves_head head;
};

static void free_node(struct sheaves_head *head)
{
    sheaves_free(head);
}

static void defer_and_wait(void)
{
    for (int i = 0; i < 2000; i++) {
        struct node *node = sheaves_malloc(sizeof *node);
        CHECK(node);
        CHECK(sheaves_call_rcu(&node->head, free_node) == 0);
    }
    sheaves_rcu_read_lock();
    sheaves_rcu_read_unlock();
    sheaves_rcu_synchronize();
    CHECK(sheaves_rcu_barrier() == 0);
    sheaves_trim(0);
}
#else
static void defer_and_wait(void)
{
    malloc_trim(0);
    (void)mallinfo2();
}
#endif

static void work(void)
{
    static __thread void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = ALLOC(i % 16 ? 16 + i : 100000 + i);
        CHECK(blocks[i]);
    }
    void *large = ALLOC(40 << 20);
    CHECK(large);
    memset(large, 1, 8 << 20);
    FREE(large);
    for (int i = 0; i < BLOCKS; i++)
        FREE(blocks[i]);
    defer_and_wait();
}

static void *worker(void *unused)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST))
        work();
    return unused;
}

static void fork_and_work(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        work();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

#ifdef API
/* A section that delays a grace period for longer than SHEAVES_RCU_STALL_MS. */
static void *stall(void *unused)
{
    sheaves_rcu_read_lock();
    usleep(150000);
    sheaves_rcu_read_unlock();
    return unused;
}
#endif

static void replace_variables(void)
{
    char *texts[50];
    for (int i = 0; i < 50; i++) {
        CHECK(asprintf(&texts[i], "VARIABLE_%d=%0*d", i, 10 * i, i) > 0);
        CHECK(putenv(texts[i]) == 0);
    }
    CHECK(setenv("SHEAVES_RCU_AGE_MS", "nonsense", 1) == 0);
    CHECK(clearenv() == 0);
    for (int i = 0; i < 50; i++) {
        memset(texts[i], 0xff, strlen(texts[i]));
        free(texts[i]);
    }
}

int main(void)
{
    pthread_t threads[THREADS];
    char **first = environ;
    environ = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(environ != MAP_FAILED);
    work();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
#ifdef API
    pthread_t stalling;
    CHECK(pthread_create(&stalling, NULL, stall, NULL) == 0);
    CHECK(pthread_join(stalling, NULL) == 0);
#endif
    for (int i = 0; i < 5; i++)
        fork_and_work();
    usleep(100000);
    environ = first;
    for (int i = 0; i < ROUNDS; i++) {
        replace_variables();
        if (i % 8 == 0)
            fork_and_work();
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
#ifdef API
    puts("ok");
#endif
    return 0;
}
