/* Children of _Fork and of a bare clone, for which no fork handlers run, beside threads that are in
 * malloc: each child allocates and frees, and so does a child of its own, within five seconds. Or
 * it is ended at its first call, as another thread held a lock when it was made. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define THREADS 6
#define HELD 512
#define BLOCKS 2000
#define SECONDS 5

static volatile int is_over;
/* Shared with children. */
static volatile int *has_begun;

static size_t size(unsigned *seed) {
    int is_huge = rand_r(seed) % 50 == 0;
    return 32 + (size_t)rand_r(seed) % (is_huge ? 3000000 : 2000);
}

static void *allocate(void *seed_of_thread) {
    unsigned seed = (unsigned)(size_t)seed_of_thread;
    void *blocks[HELD] = {0};
    while (!is_over) {
        int place = rand_r(&seed) % HELD;
        free(blocks[place]);
        blocks[place] = malloc(size(&seed));
        memset(blocks[place], place, 32);
    }
    for (int place = 0; place < HELD; place++)
        free(blocks[place]);
    return NULL;
}

static pid_t make_child(int is_bare) {
    /* Not in every libc. */
    pid_t (*bare)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    if (is_bare && bare)
        return bare();
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static void use_memory(void) {
    static unsigned char *blocks[BLOCKS];
    unsigned seed = 7;
    for (int round = 0; round < 2; round++) {
        for (int block = 0; block < BLOCKS; block++) {
            blocks[block] = malloc(size(&seed));
            CHECK(blocks[block]);
            memset(blocks[block], block & 127, 32);
        }
        for (int block = 0; block < BLOCKS; block++) {
            for (int byte = 0; byte < 32; byte++)
                CHECK(blocks[block][byte] == (block & 127));
            free(blocks[block]);
        }
    }
}

/* The first call that takes a lock. There may have been other threads: the library's, at least. */
static void begin(void) {
    int nothing = open("/dev/null", O_WRONLY), errors = dup(2);
    CHECK(dup2(nothing, 2) == 2);
    *has_begun = 0;
    free(malloc(3 << 20));
    *has_begun = 1;
    CHECK(dup2(errors, 2) == 2);
}

static void fork_once(int is_bare, int depth) {
    pid_t child = make_child(is_bare);
    CHECK(child >= 0);
    if (child == 0) {
        alarm(SECONDS);
        begin();
        use_memory();
        if (depth > 0)
            fork_once(is_bare, depth - 1);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0 || (!*has_begun && WTERMSIG(status) == SIGABRT));
}

int main(int count, char **arguments) {
    int forks = count > 1 ? atoi(arguments[1]) : 100;
    has_begun = mmap(NULL, sizeof *has_begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    CHECK(has_begun != MAP_FAILED);
    pthread_t threads[THREADS];
    for (size_t thread = 0; thread < THREADS; thread++)
        CHECK(!pthread_create(&threads[thread], NULL, allocate, (void *)(thread + 1)));
    for (int number = 0; number < forks; number++) {
        usleep(1000);
        fork_once(number & 1, 1);
    }
    is_over = 1;
    for (size_t thread = 0; thread < THREADS; thread++)
        CHECK(!pthread_join(threads[thread], NULL));
    return 0;
}
