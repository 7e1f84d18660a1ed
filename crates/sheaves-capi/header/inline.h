#ifndef SHEAVES_H_INLINE
#define SHEAVES_H_INLINE

/* A counter that is at 0. */
#define SHEAVES_COUNTER_INIT { { 0, 0 } }

/* What a thread has of its own. Part of the ABI: inlined readers know it. */
struct sheaves_thread {
    uint64_t reserved_0[5];
    uint64_t *reader;
    uint32_t reserved_1;
    uint32_t is_online;
    uint64_t reserved_2;
};

/* Where the fast paths of readers are inlined. Other machines and compilers call the functions, and
 * with SHEAVES_NO_INLINE all do. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(SHEAVES_NO_INLINE)
#define SHEAVES_INLINED 1

#if defined(__cplusplus)
extern "C" {
#endif

extern __thread struct sheaves_thread sheaves_thread __attribute__((tls_model("initial-exec")));
extern uint64_t *const sheaves_rcu_sequence;

/* The fast path of sheaves_rcu_read_lock: no section is open, and the thread is known. */
static inline __attribute__((always_inline)) void sheaves_rcu_read_lock_inline(void)
{
    uint64_t *word = sheaves_thread.reader;

    if (__builtin_expect(__atomic_load_n(word, __ATOMIC_RELAXED) == 0, 1)) {
        __atomic_store_n(word, __atomic_load_n(sheaves_rcu_sequence, __ATOMIC_RELAXED),
                         __ATOMIC_RELEASE);
        /* For the compiler alone: the section stays behind the store. The processor is taken care
         * of by the grace period, which makes every thread pass a fence. */
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        sheaves_rcu_read_lock();
    }
}

/* The fast path of sheaves_rcu_read_unlock: the only section of a thread that need not fence. The
 * second word counts sections inside others. */
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

/* Calls are inlined; the names without parentheses are the functions. */
#define sheaves_rcu_read_lock() sheaves_rcu_read_lock_inline()
#define sheaves_rcu_read_unlock() sheaves_rcu_read_unlock_inline()

#endif

/* A load of a pointer that writers publish, for readers; and the store that publishes it. */
#if defined(__GNUC__)
#define sheaves_rcu_dereference(pointer) __atomic_load_n(&(pointer), __ATOMIC_CONSUME)
#define sheaves_rcu_assign_pointer(pointer, value) \
    __atomic_store_n(&(pointer), (value), __ATOMIC_RELEASE)
#endif

#endif /* SHEAVES_H_INLINE */
