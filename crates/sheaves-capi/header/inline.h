#ifndef SHEAVES_H_INLINE
#define SHEAVES_H_INLINE

/* Initialises a counter to 0. */
#define SHEAVES_COUNTER_INIT { { 0, 0 } }

/* The thread's words. Part of the ABI, since inlined readers use it: its version is in the name of
 * the variable, so that a program for another layout is not linked or loaded. */
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

extern __thread struct sheaves_thread sheaves_thread_v0 __attribute__((tls_model("initial-exec")));
extern uint64_t *const sheaves_rcu_sequence;

/* The fast path of sheaves_rcu_read_lock: no section is open, and the thread is registered. */
static inline __attribute__((always_inline)) void sheaves_rcu_read_lock_inline(void)
{
    uint64_t *word = sheaves_thread_v0.reader;

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
    uint64_t *word = sheaves_thread_v0.reader;

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

#if defined(__SANITIZE_THREAD__)
#define SHEAVES_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHEAVES_TSAN 1
#endif
#endif

/* ThreadSanitizer does not see what orders threads inside the library, so calls tell it: what came
 * before the end of a section or a deferral is before the end of a grace period, and what came
 * before a free is before the next allocation. */
#if defined(SHEAVES_TSAN) && defined(SHEAVES_INLINED)
#if defined(__cplusplus)
extern "C" {
#endif

void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_ignore_thread_begin(void);
void __tsan_ignore_thread_end(void);

/* One address stands for all sections and deferrals. */
static inline void sheaves_tsan_ends(void)
{
    __tsan_release((void *)sheaves_rcu_sequence);
}

static inline int sheaves_tsan_waited(int result)
{
    __tsan_acquire((void *)sheaves_rcu_sequence);
    return result;
}

static inline void *sheaves_tsan_taken(void *block)
{
    sheaves_tsan_waited(0);
    if (block)
        __tsan_acquire(block);
    return block;
}

static inline void *sheaves_tsan_given(const void *block)
{
    if (block)
        __tsan_release((void *)(uintptr_t)block);
    return (void *)(uintptr_t)block;
}

/* These write zeros into a block, or copy one, before another thread knows it. */
static inline void *sheaves_tsan_calloc(size_t count, size_t size)
{
    __tsan_ignore_thread_begin();
    void *block = sheaves_calloc(count, size);
    __tsan_ignore_thread_end();
    return sheaves_tsan_taken(block);
}

static inline void *sheaves_tsan_realloc(void *block, size_t size)
{
    sheaves_tsan_given(block);
    __tsan_ignore_thread_begin();
    block = sheaves_realloc(block, size);
    __tsan_ignore_thread_end();
    return sheaves_tsan_taken(block);
}

static inline void *sheaves_tsan_reallocarray(void *block, size_t count, size_t size)
{
    sheaves_tsan_given(block);
    __tsan_ignore_thread_begin();
    block = sheaves_reallocarray(block, count, size);
    __tsan_ignore_thread_end();
    return sheaves_tsan_taken(block);
}

static inline int sheaves_tsan_posix_memalign(void **place, size_t align, size_t size)
{
    int result = sheaves_posix_memalign(place, align, size);

    if (result == 0)
        sheaves_tsan_taken(*place);
    return result;
}

static inline void *sheaves_tsan_alloc(struct sheaves_cache *cache)
{
    __tsan_ignore_thread_begin();
    void *object = sheaves_cache_alloc(cache);
    __tsan_ignore_thread_end();
    return sheaves_tsan_taken(object);
}

static inline size_t sheaves_tsan_alloc_bulk(struct sheaves_cache *cache, void **objects,
                                             size_t count)
{
    __tsan_ignore_thread_begin();
    count = sheaves_cache_alloc_bulk(cache, objects, count);
    __tsan_ignore_thread_end();
    for (size_t i = 0; i < count; i++)
        sheaves_tsan_taken(objects[i]);
    return count;
}

static inline int sheaves_tsan_free_bulk(struct sheaves_cache *cache, void *const *objects,
                                         size_t count)
{
    for (size_t i = 0; objects && i < count; i++)
        sheaves_tsan_given(objects[i]);
    return sheaves_cache_free_bulk(cache, objects, count);
}

#if defined(__cplusplus)
}
#endif

#undef sheaves_rcu_read_unlock
#define sheaves_rcu_read_unlock() (sheaves_tsan_ends(), sheaves_rcu_read_unlock_inline())
#define sheaves_srcu_read_unlock(domain, section) \
    (sheaves_tsan_ends(), sheaves_srcu_read_unlock(domain, section))

#define sheaves_rcu_synchronize() sheaves_tsan_waited(sheaves_rcu_synchronize())
#define sheaves_rcu_synchronize_expedited() \
    sheaves_tsan_waited(sheaves_rcu_synchronize_expedited())
#define sheaves_rcu_wait(cookie) sheaves_tsan_waited(sheaves_rcu_wait(cookie))
#define sheaves_rcu_poll(cookie) (sheaves_tsan_waited(sheaves_rcu_poll(cookie)) != 0)
#define sheaves_rcu_barrier() sheaves_tsan_waited(sheaves_rcu_barrier())
#define sheaves_srcu_synchronize(domain) sheaves_tsan_waited(sheaves_srcu_synchronize(domain))
#define sheaves_srcu_barrier(domain) sheaves_tsan_waited(sheaves_srcu_barrier(domain))
#define sheaves_srcu_destroy(domain) (sheaves_srcu_destroy(domain), (void)sheaves_tsan_waited(0))

#define sheaves_call_rcu(head, call) (sheaves_tsan_ends(), sheaves_call_rcu(head, call))
#define sheaves_call_rcu_hurry(head, call) \
    (sheaves_tsan_ends(), sheaves_call_rcu_hurry(head, call))
#define sheaves_srcu_call(domain, head, call) \
    (sheaves_tsan_ends(), sheaves_srcu_call(domain, head, call))
#define sheaves_free_rcu(block) (sheaves_tsan_ends(), sheaves_free_rcu(block))
#define sheaves_free_rcu_head(block, head) \
    (sheaves_tsan_ends(), sheaves_free_rcu_head(block, head))
#define sheaves_cache_free_rcu(cache, object) \
    (sheaves_tsan_ends(), sheaves_cache_free_rcu(cache, object))

#define sheaves_malloc(size) sheaves_tsan_taken(sheaves_malloc(size))
#define sheaves_calloc(count, size) sheaves_tsan_calloc(count, size)
#define sheaves_aligned_alloc(align, size) sheaves_tsan_taken(sheaves_aligned_alloc(align, size))
#define sheaves_realloc(block, size) sheaves_tsan_realloc(block, size)
#define sheaves_reallocarray(block, count, size) sheaves_tsan_reallocarray(block, count, size)
#define sheaves_posix_memalign(place, align, size) sheaves_tsan_posix_memalign(place, align, size)
#define sheaves_free(block) sheaves_free(sheaves_tsan_given(block))
#define sheaves_free_sized(block, size) sheaves_free_sized(sheaves_tsan_given(block), size)
#define sheaves_free_aligned_sized(block, align, size) \
    sheaves_free_aligned_sized(sheaves_tsan_given(block), align, size)
#define sheaves_cache_alloc(cache) sheaves_tsan_alloc(cache)
#define sheaves_cache_free(cache, object) sheaves_cache_free(cache, sheaves_tsan_given(object))
#define sheaves_cache_alloc_bulk(cache, objects, count) \
    sheaves_tsan_alloc_bulk(cache, objects, count)
#define sheaves_cache_free_bulk(cache, objects, count) \
    sheaves_tsan_free_bulk(cache, objects, count)
#endif

/* A reader's load of a published pointer, and the store that publishes it. */
#if defined(__GNUC__)
#define sheaves_rcu_dereference(pointer) __atomic_load_n(&(pointer), __ATOMIC_CONSUME)
/* By a variable: gcc's function takes any pointer, and changes none to that of a base. */
#define sheaves_rcu_assign_pointer(pointer, value)                         \
    __extension__({                                                        \
        __typeof__(pointer) sheaves_value = (value);                       \
        __atomic_store_n(&(pointer), sheaves_value, __ATOMIC_RELEASE);     \
    })
#endif

#endif /* SHEAVES_H_INLINE */
