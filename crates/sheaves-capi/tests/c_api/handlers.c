/* Read sections, interrupted after every instruction. The CPU's trap flag raises SIGTRAP after each
 * instruction. Once in a run the handler opens a section of its own and loads the published object.
 * While it holds the object, another thread replaces it, takes a cookie and polls it, and frees the
 * object when the grace period has ended. Neither the handler nor the interrupted thread may hold a
 * freed object.
 *
 * FLAVOR_HEADER is a header of liburcu's; without it the readers are those of sheaves.h. With QSBR
 * threads are online. With BROKEN a quiescent state leaves a thread online without a section: the
 * program must detect that, and fail. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#if defined(FLAVOR_HEADER)
#include FLAVOR_HEADER
#else
#include <sheaves.h>
#define rcu_read_lock() sheaves_rcu_read_lock()
#define rcu_read_unlock() sheaves_rcu_read_unlock()
#define rcu_register_thread() ((void)0)
#define rcu_unregister_thread() ((void)0)
#define rcu_thread_offline() ((void)0)
#define rcu_thread_online() ((void)0)
#define rcu_quiescent_state() ((void)0)
#endif

#if defined(BROKEN)
#undef rcu_quiescent_state
static void rcu_quiescent_state(void)
{
    (sheaves_rcu_read_unlock)();
    (sheaves_rcu_read_lock)();
}
#endif

#define OBJECTS (1 << 14)
#define TRAP 0x100

static int current, freed[OBJECTS], wrong, is_over;
static sem_t asked, done;
static volatile long left;
static volatile sig_atomic_t was_called, is_blocked;

static int find(void)
{
    return __atomic_load_n(&current, __ATOMIC_ACQUIRE);
}

static void check(int object)
{
    if (__atomic_load_n(&freed[object], __ATOMIC_ACQUIRE))
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void wait_on(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        assert(errno == EINTR);
}

/* Replaces the object whenever it is asked to. */
static void *update(void *unused)
{
    static sheaves_rcu_cookie cookies[OBJECTS];
    int next_freed = 0;

    (void)unused;
    for (;;) {
        int old = find();

        wait_on(&asked);
        if (__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
            return NULL;
        assert(old + 1 < OBJECTS);
        __atomic_store_n(&current, old + 1, __ATOMIC_RELEASE);
        cookies[old] = sheaves_rcu_start_poll_expedited();
        for (int i = 0; i < 3 && !sheaves_rcu_poll(cookies[old]); i++)
            ;
        while (next_freed <= old && sheaves_rcu_poll(cookies[next_freed]))
            __atomic_store_n(&freed[next_freed++], 1, __ATOMIC_RELEASE);
        assert(sem_post(&done) == 0);
    }
}

/* The handler's section. */
static void hold(void)
{
    int object, before = errno;

    rcu_read_lock();
    object = find();
    assert(sem_post(&asked) == 0);
    wait_on(&done);
    check(object);
    rcu_read_unlock();
    errno = before;
}

/* If the next instruction is a system call that blocks signals, leaves SIGTRAP unblocked: raised
 * while it is blocked, it would end the process. The handler waits until signals are permitted. */
static void keep_trap_unblocked(const greg_t *registers)
{
    const unsigned char *next = (const unsigned char *)registers[REG_RIP];
    uint64_t *set = (uint64_t *)registers[REG_RSI], bit = 1ULL << (SIGTRAP - 1);
    int how = (int)registers[REG_RDI];

    if (next[0] != 0x0F || next[1] != 0x05 || registers[REG_RAX] != SYS_rt_sigprocmask || !set)
        return;
    if (how == SIG_SETMASK || (*set & bit))
        is_blocked = (*set & bit) && how != SIG_UNBLOCK;
    if (is_blocked)
        *set &= ~bit;
}

static void trap(int number, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

    (void)number;
    (void)info;
    if (left > 0)
        left--;
    else if (!is_blocked) {
        was_called = 1;
        hold();
        registers[REG_EFL] &= ~(greg_t)TRAP;
        return;
    }
    keep_trap_unblocked(registers);
}

/* Begin and end of single-stepping. Below the red zone of the stack. */
#define BEGIN() __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n orl $0x100, (%%rsp)\n popfq\n" \
                                 "lea 128(%%rsp), %%rsp" ::: "memory", "cc")
#define END() __asm__ volatile("lea -128(%%rsp), %%rsp\n pushfq\n andl $0xFFFFFEFF, (%%rsp)\n" \
                               "popfq\n lea 128(%%rsp), %%rsp" ::: "memory", "cc")

static void section(void)
{
    int object;

    rcu_read_lock();
    object = find();
    rcu_read_lock();
    rcu_read_unlock();
    check(object);
    rcu_read_unlock();
}

static void first_section(void)
{
    rcu_register_thread();
    section();
    rcu_unregister_thread();
}

static void quiet(void)
{
    int object = find();

    check(object);
    rcu_quiescent_state();
    object = find();
    check(object);
}

static void away(void)
{
    rcu_thread_offline();
    section();
    rcu_thread_online();
    section();
}

static void heat(void)
{
    for (int i = 0; i < 300; i++) {
        (sheaves_rcu_read_lock)();
        (sheaves_rcu_read_unlock)();
    }
}

static void rest(void)
{
    heat();
    sheaves_rcu_enter_idle();
    sheaves_rcu_poll(sheaves_rcu_start_poll_expedited());
}

#if !defined(QSBR)
static void nothing(void)
{
}
#endif

static const struct scenario {
    const char *name;
    void (*before)(void);
    int is_online;
    void (*body)(void);
} scenarios[] = {
#if !defined(QSBR)
    { "first section", nothing, 0, first_section },
#endif
    { "warm", heat, 0, section },
    { "rested", rest, 0, section },
#if defined(QSBR)
    { "registers and unregisters", heat, 0, first_section },
    { "online", heat, 1, section },
    { "quiescent state", heat, 1, quiet },
    { "quiescent state of an idle thread", rest, 1, quiet },
    { "offline and online", heat, 1, away },
#else
    { "nothing to do", heat, 0, away },
#endif
};

static void *run(void *argument)
{
    const struct scenario *scenario = argument;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    assert(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    scenario->before();
    if (scenario->is_online)
        rcu_register_thread();
    BEGIN();
    scenario->body();
    END();
    if (scenario->is_online)
        rcu_unregister_thread();
    return NULL;
}

int main(void)
{
    struct sigaction action;
    pthread_t updater;

    (void)quiet;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = trap;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    assert(sigaction(SIGTRAP, &action, NULL) == 0);
    assert(sem_init(&asked, 0, 0) == 0 && sem_init(&done, 0, 0) == 0);
    assert(pthread_create(&updater, NULL, update, NULL) == 0);
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        int places = 0, wrong_before = wrong;

        do {
            pthread_t thread;

            left = places++;
            was_called = is_blocked = 0;
            assert(pthread_create(&thread, NULL, run, (void *)(uintptr_t)&scenarios[i]) == 0);
            assert(pthread_join(thread, NULL) == 0);
        } while (was_called);
        printf("%s: %d instructions, %d wrong\n", scenarios[i].name, places, wrong - wrong_before);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    assert(sem_post(&asked) == 0 && pthread_join(updater, NULL) == 0);
    puts(wrong ? "held a freed object" : "ok");
    return wrong != 0;
}
