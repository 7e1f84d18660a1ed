/* When the library has a thread. Argument: what the program does.
 *   small    less than 32 MiB are freed, beside another thread: there is none at any time
 *   single   much is freed in a program of one thread: there is none either
 *   idle     much is freed beside another thread: there is one, which ends within three seconds
 *   sandbox  the same, and the program enters a sandbox: it has ended before that
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 100000, BLOCK = 1000, TENTHS = 30, TRIES = 200 };

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

static void confine(void) {
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    /* Filters may not be permitted here. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        _exit(0);
}

int main(int count, char **argument) {
    CHECK(count == 2);
    int is_single = !strcmp(argument[1], "single"), is_small = !strcmp(argument[1], "small");
    int own = is_single ? 1 : 2;
    pthread_t thread;
    if (!is_single) CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
    CHECK(threads(own) == 0);
    if (is_small || is_single) {
        for (int i = 0; i < TENTHS; i++) {
            use(is_small ? BLOCKS / 5 : BLOCKS);
            CHECK(threads(own) == 0);
            usleep(30000);
        }
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
    for (int i = 0; i < TENTHS + 5 && threads(own); i++) usleep(100000);
    CHECK(threads(own) == 0);
    return 0;
}
