/* A program that kills itself for every system call that it does not expect, and uses malloc.
 *
 * Arguments: seconds, threads, and words:
 *   bare    enters the filter by the instruction for system calls, which no library notices
 *   lively  threads end and begin, and the program forks, with and without handlers
 *   opens   calls openat once, which the filter does not permit
 * The filter permits what a malloc calls, and what this program calls itself; without `lively`
 * neither threads nor processes begin or end under it. Without `bare` it permits mmap only with
 * flags that Chromium's sandbox knows.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Shared with children: the first call has returned. */
static volatile int *has_begun;
static int is_beside_others;

enum { BLOCKS = 400, THREADS_MAX = 8, ROUND = 2000, SHELF = 64 };

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(9); \
        } \
    } while (0)

/* By the instruction itself. */
static long bare_call(long number, long first, long second, long third, long fourth) {
#ifdef __x86_64__
    long result;
    register long r10 __asm__("r10") = fourth;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = first;
    register long x1 __asm__("x1") = second;
    register long x2 __asm__("x2") = third;
    register long x3 __asm__("x3") = fourth;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
#endif
}

#define ALLOW(name) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define OF_MALLOC \
    ALLOW(mmap), ALLOW(munmap), ALLOW(mremap), ALLOW(mprotect), ALLOW(madvise), ALLOW(futex)
/* The flags of mmap that Chromium's sandbox permits. */
#define FLAGS \
    (MAP_SHARED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE | MAP_FIXED | \
     MAP_DENYWRITE | MAP_LOCKED)
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Without the first five instructions it permits all flags. */
#define BEGIN \
    LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3), LOAD(args[3]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (unsigned)~FLAGS, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS), LOAD(nr)
enum { OF_FLAGS = 5 };
/* Of this program: sleeping, messages, a second filter, the end. */
#define OF_PROGRAM \
    ALLOW(clock_nanosleep), ALLOW(write), ALLOW(prctl), ALLOW(seccomp), ALLOW(exit_group)
/* Of libc: threads and processes. */
#define OF_THREADS \
    ALLOW(clone), ALLOW(clone3), ALLOW(set_robust_list), ALLOW(rseq), ALLOW(rt_sigprocmask), \
        ALLOW(exit), ALLOW(wait4)

static void confine(int is_lively, int is_bare) {
    struct sock_filter steady[] = {
        BEGIN, OF_MALLOC, OF_PROGRAM, BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_filter lively[] = {
        BEGIN, OF_MALLOC, OF_PROGRAM, OF_THREADS,
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof steady / sizeof *steady, steady};
    if (is_lively) program = (struct sock_fprog){sizeof lively / sizeof *lively, lively};
    /* The library does not know that it has to do without some flags. */
    if (is_bare) program.filter += OF_FLAGS, program.len -= OF_FLAGS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(77);
    long (*enter)(long, ...) = is_bare ? (long (*)(long, ...))bare_call : syscall;
    long status = enter(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (status) _exit(77);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void nap(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* Blocks that another thread frees. */
static _Atomic(char *) shelf[SHELF];
static atomic_int is_over, begun;
static int is_lively;

static unsigned long next(unsigned long *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return *state;
}

/* Sizes of all classes: most are small. */
static size_t size_of(unsigned long random) {
    return 1 + (random >> 20) % (1ul << (random >> 50) % (random % 64 ? 16 : 23));
}

static void use_once(char **block, unsigned long *state) {
    unsigned long random = next(state);
    size_t size = size_of(random);
    char *other = NULL;
    errno = 0;
    switch (random % 8) {
    case 0: *block = realloc(*block, size); break;
    case 1:
        free(*block), *block = calloc(1, size);
        CHECK(*block && (*block)[0] == 0 && (*block)[size - 1] == 0);
        break;
    case 2: free(*block), *block = aligned_alloc(1ul << (random >> 40) % 13, size); break;
    case 3:
        free(*block);
        CHECK(posix_memalign((void **)block, 64, size) == 0);
        break;
    case 4:
        other = atomic_exchange(&shelf[(random >> 30) % SHELF], *block);
        free(other), *block = malloc(size);
        break;
    default: free(*block), *block = malloc(size);
    }
    CHECK(*block && errno == 0 && malloc_usable_size(*block) >= size);
    (*block)[0] = (*block)[size - 1] = 1;
}

/* Fills much memory and frees all of it, so that much is unused. */
static void heap_up(void) {
    enum { MANY = 20000 };
    static char *many[MANY];
    static atomic_flag is_busy = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&is_busy)) return;
    for (int i = 0; i < MANY; i++) memset(many[i] = malloc(3000), 1, 3000);
    for (long i = 0; i < MANY; i++) free(many[i * 7919 % MANY]);
    atomic_flag_clear(&is_busy);
}

static void *use(void *number) {
    char *block[BLOCKS] = {0};
    unsigned long state = (unsigned long)(uintptr_t)number * 7919 + 1;
    begun++;
    for (int round = 1; !is_over; round++) {
        for (int i = 0; i < ROUND; i++) use_once(&block[next(&state) % BLOCKS], &state);
        if (round % 50 == 0) heap_up();
        nap(round % 10 == 0 ? 60 : 1);
        if (is_lively && round % 40 == 0) break;
    }
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    return NULL;
}

static void in_child(pid_t (*make_child)(void), int depth) {
    char *block[BLOCKS] = {0};
    unsigned long state = 5;
    *has_begun = 0;
    free(malloc(3 << 20));
    *has_begun = 1;
    for (int i = 0; i < ROUND; i++) use_once(&block[next(&state) % BLOCKS], &state);
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
    if (depth) return;
    pid_t child = make_child();
    CHECK(child >= 0);
    if (child == 0) in_child(make_child, 1), _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void fork_once(pid_t (*make_child)(void)) {
    pid_t child = make_child();
    CHECK(child >= 0);
    if (child == 0) in_child(make_child, 0), _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    /* Without handlers the first call ends a child if another thread held a lock. */
    if (status && !*has_begun && make_child != fork && is_beside_others) return;
    if (status) dprintf(2, "status of the child: %x\n", status);
    CHECK(status == 0);
}

int main(int count, char **argument) {
    CHECK(count >= 3);
    int seconds = atoi(argument[1]), threads = atoi(argument[2]), is_bare = 0, opens = 0;
    for (int i = 3; i < count; i++) {
        is_bare |= !strcmp(argument[i], "bare");
        is_lively |= !strcmp(argument[i], "lively");
        opens |= !strcmp(argument[i], "opens");
    }
    pid_t (*without)(void) = (pid_t(*)(void))dlsym(RTLD_DEFAULT, "_Fork");
    is_beside_others = threads > 1;
    has_begun = mmap(NULL, sizeof *has_begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0);
    CHECK(has_begun != MAP_FAILED);
    pthread_t thread[THREADS_MAX];
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    for (intptr_t i = 1; i < threads; i++) CHECK(!pthread_create(&thread[i], NULL, use, (void *)i));
    /* What is unused may have the library start a thread. */
    heap_up();
    nap(20);
    /* libc makes calls of its own in a thread before that calls `use`. */
    while (begun < threads - 1) nap(1);
    confine(is_lively, is_bare);
    confine(is_lively, is_bare);
    if (opens) syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY, 0);
    char *block[BLOCKS] = {0};
    unsigned long state = 1;
    double end = now() + seconds;
    for (int round = 1; now() < end; round++) {
        for (int i = 0; i < ROUND; i++) use_once(&block[next(&state) % BLOCKS], &state);
        if (round % 50 == 0) heap_up();
        nap(round % 10 == 0 ? 60 : 1);
        /* Handlers of `fork` may call membarrier, outside a sandbox that was noticed. */
        int has_handlers = !is_bare && round % 40 == 0;
        if (is_lively && round % 20 == 0 && (without || has_handlers))
            fork_once(has_handlers ? fork : without);
        if (is_lively && threads > 1 && round % 7 == 0) {
            /* Each ends from time to time. */
            int ended = 1 + round % (threads - 1);
            CHECK(!pthread_join(thread[ended], NULL));
            CHECK(!pthread_create(&thread[ended], NULL, use, (void *)(intptr_t)round));
        }
    }
    if (is_lively) {
        is_over = 1;
        for (int i = 1; i < threads; i++) CHECK(!pthread_join(thread[i], NULL));
    }
    /* With what the library does at the end, of which it must know that it is in a sandbox. */
    if (!is_bare) exit(0);
    _exit(0);
}
