/* When the library has a thread. Argument: what the program does.
 *   small    less than 32 MiB are freed, beside another thread: there is none at any time
 *   single   much is freed in a program of one thread: there is none either
 *   shift    the bytes in use stay, but not their sizes: there is one, since much is unused
 *   idle     much is freed beside another thread: there is one, which ends within three seconds
 *   sandbox  the same, and the program enters a sandbox: it has ended before that
 *   child    the same, and the program forks: the child has one thread, so there is none
 *   refused  as idle, but it cannot be started: that is not tried at each call
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 100000, BLOCK = 1000, TENTHS = 30, TRIES = 200 };

static int is_refused, attempts;

/* Takes the place of that of libc, for the preload object, too. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *argument) {
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next) CHECK(next = dlsym(RTLD_NEXT, "pthread_create"));
    attempts++;
    return is_refused ? EAGAIN : next(thread, attributes, run, argument);
}

static long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *wait_for_ever(void *unused) {
    pause();
    return unused;
}

/* Tasks beside those that the program has made. */
static int threads(int own) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder);
    for (struct dirent *entry; (entry = readdir(folder));) count += entry->d_name[0] != '.';
    closedir(folder);
    return count - own;
}

static void use(int blocks) {
    static char *block[BLOCKS];
    for (int i = 0; i < blocks; i++) {
        CHECK(block[i] = malloc(BLOCK));
        memset(block[i], 1, BLOCK);
    }
    for (long i = 0; i < blocks; i++) free(block[i * 7919 % blocks]);
}

/* Replaces blocks at random. As many bytes are in use all the time; the blocks of every other phase
 * have sizes of other classes. */
static void replace(int phase) {
    static char *block[BLOCKS];
    static unsigned long random = 1;
    for (int i = 0; i < 4 * BLOCKS; i++) {
        random = random * 6364136223846793005 + 1442695040888963407;
        int place = (random >> 33) % BLOCKS, step = (random >> 20) % 8;
        free(block[place]);
        CHECK(block[place] = malloc(512 + 256 * step + (phase & 1 ? 128 : 0)));
        memset(block[place], 1, 512);
    }
}

static void confine(void) {
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* Filters may not be permitted here. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        _exit(0);
}

/* Programs of one thread have none. */
static void use_without(int blocks, int own) {
    for (int i = 0; i < TENTHS; i++) {
        use(blocks);
        CHECK(threads(own) == 0);
        usleep(30000);
    }
}

int main(int count, char **argument) {
    CHECK(count == 2);
    int is_single = !strcmp(argument[1], "single"), is_small = !strcmp(argument[1], "small");
    int own = is_single ? 1 : 2;
    pthread_t thread;
    if (!is_single) CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
    CHECK(threads(own) == 0);
    if (is_small || is_single) {
        use_without(is_small ? BLOCKS / 5 : BLOCKS, own);
        return 0;
    }
    if (!strcmp(argument[1], "refused")) {
        is_refused = 1, attempts = 0;
        long begin_ms = now_ms();
        while (now_ms() < begin_ms + 500) use(BLOCKS), use(BLOCKS / 10);
        CHECK(attempts > 0 && attempts <= 2 + (now_ms() - begin_ms) / 100);
        return 0;
    }
    if (!strcmp(argument[1], "shift")) {
        /* The test ends this program after a minute. */
        for (int phase = 0; !threads(own); phase++) replace(phase);
        return 0;
    }
    int has_thread = 0;
    for (int i = 0; i < TRIES && !has_thread; i++) {
        use(BLOCKS);
        /* Allocations start it. */
        use(BLOCKS / 10);
        has_thread = threads(own) != 0;
    }
    CHECK(has_thread);
    if (!strcmp(argument[1], "sandbox")) {
        confine();
        CHECK(threads(own) == 0);
        for (int i = 0; i < 10; i++) use(BLOCKS), usleep(10000);
        CHECK(threads(own) == 0);
        return 0;
    }
    if (!strcmp(argument[1], "child")) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) use_without(BLOCKS, 1), _exit(0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        return 0;
    }
    for (int i = 0; i < TENTHS + 5 && threads(own); i++) usleep(100000);
    CHECK(threads(own) == 0);
    return 0;
}
