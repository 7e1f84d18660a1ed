#ifndef SHEAVES_H_INLINE
#define SHEAVES_H_INLINE

/* Initialises a counter to 0. */
#define SHEAVES_COUNTER_INIT { { 0, 0 } }

/* The thread's words. Part of the ABI, since inlined readers use it. */
struct sheaves_thread {
    uint64_t reserved_0[5];
    uint64_t *reader;
    uint32_t reserved_1;
    uint32_t is_online;
    uint64_t reserved_2;
};

/* The fast paths of readers are inlined here. Other machines and compilers call the functions; with
 * SHEAVES_NO_INLINE all do. */
#if defined(__GNUC__) && !defined(SHEAVES_NO_INLINE) \
    && (defined(__x86_64__) || defined(__aarch64__))
#define SHEAVES_INLINED 1

#if defined(__cplusplus)
extern "C" {
#endif

extern __thread struct sheaves_thread sheaves_thread __attribute__((tls_model("initial-exec")));
extern uint64_t *const sheaves_rcu_sequence;

/* The fast path of sheaves_rcu_read_lock: no section is open, and the thread is registered. */
static inline __attribute__((always_inline)) void sheaves_rcu_read_lock_inline(void)
{
    uint64_t *word = sheaves_thread.reader;

    if (__builtin_expect(__atomic_load_n(word, __ATOMIC_RELAXED) == 0, 1)) {
        __atomic_store_n(word, __atomic_load_n(sheaves_rcu_sequence, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
        /* For the compiler only: keeps the section after the store. For the CPU, the grace period
         * makes every thread pass a fence. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        sheaves_rcu_read_lock();
    }
}

/* The fast path of sheaves_rcu_read_unlock: the only open section, of a thread that needs no fence.
 * The second word counts nested sections. */
static inline __attribute__((always_inline)) void sheaves_rcu_read_unlock_inline(void)
{
    uint64_t *word = sheaves_thread.reader;

    if (__builtin_expect(__atomic_load_n(word + 1, __ATOMIC_RELAXED) == 0
                         && (__atomic_load_n(word, __ATOMIC_RELAXED) & 1) != 0, 1))
        __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    else
        sheaves_rcu_read_unlock();
}

#if defined(__cplusplus)
}
#endif

/* Calls are inlined; a name without parentheses is the function. */
#define sheaves_rcu_read_lock() sheaves_rcu_read_lock_inline()
#define sheaves_rcu_read_unlock() sheaves_rcu_read_unlock_inline()

#endif

/* A reader's load of a published pointer, and the store that publishes it. */
#if defined(__GNUC__)
#define sheaves_rcu_dereference(pointer) __atomic_load_n(&(pointer), __ATOMIC_CONSUME)
#define sheaves_rcu_assign_pointer(pointer, value) \
    __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)
#endif

#endif /* SHEAVES_H_INLINE */
