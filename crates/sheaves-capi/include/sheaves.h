/* Sheaves: per-CPU memory and RCU for programs on Linux. C99, C++11 and later.
 *
 * Made of the library's source by `cargo xtask header`: not to be edited.
 *
 * Functions that return int return 0 or a value of errno.h; those that return a pointer return NULL
 * and set errno. An argument that can be known to be wrong is EINVAL, and nothing happens.
 *
 * Options are variables of the environment, read once:
 *   SHEAVES_ENGINE: auto, rseq, portable; default: auto
 *       How per-CPU transactions are carried out.
 *   SHEAVES_SLOT: cid, cpu; default: cid where the kernel has it
 *       What numbers the slots of the rseq engine: mm_cid or cpu_id.
 *   SHEAVES_SLOTS: 1 to 8192; default: possible CPUs
 *       Number of virtual slots of the portable engine.
 *   SHEAVES_SMALL_PAGES: 0, 1; default: 0
 *       With 1 a heap above 16 MiB asks for no huge pages.
 *   SHEAVES_DEBUG: 0, 1; default: 0
 *       With 1 every free is checked, at the price of the fast path.
 *   SHEAVES_RCU: normal, expedited; default: as the program asks
 *       Makes all grace periods normal, or all expedited.
 *   SHEAVES_RCU_STALL_MS: 0 or more; default: 1000
 *       Age in milliseconds at which a grace period that does not end is reported; 0 for never.
 *   SHEAVES_RCU_FENCES: 0, 1; default: 0
 *       With 1 readers use fences, as if membarrier(2) were refused.
 *   SHEAVES_RCU_RECLAIMERS: 0, 1, slots; default: 1
 *       Threads of the library that run deferred calls. With 0 the program calls
 *       sheaves_rcu_drive or rcu::defer::poll; with slots there is one for each CPU, pinned to
 *       it.
 *   SHEAVES_RCU_AGE_MS: 1 to 60000; default: 20
 *       How long something deferred waits, in milliseconds, before a grace period is started for
 *       it.
 *   SHEAVES_RCU_SOFT_BYTES: 4096 or more; default: 4 MiB
 *       Deferred bytes above which grace periods are started at once.
 *   SHEAVES_RCU_HIGH_BYTES: not below soft; default: 32 MiB
 *       Deferred bytes above which grace periods are expedited.
 *   SHEAVES_RCU_HARD_BYTES: not below high; default: 256 MiB
 *       Deferred bytes above which threads that defer help to take back what is ready.
 *   SHEAVES_RCU_PRESSURE: 0, 1; default: 0
 *       With 1 deferred memory is taken back sooner under memory pressure of the system or the
 *       control group.
 */

#ifndef SHEAVES_H
#define SHEAVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__) || UINTPTR_MAX != UINT64_MAX
#error "Sheaves is for Linux on machines of 64 bits"
#endif

/* Version of this header. */
#define SHEAVES_VERSION_MAJOR 0
#define SHEAVES_VERSION_MINOR 1
#define SHEAVES_VERSION_PATCH 0
#define SHEAVES_VERSION "0.1.0"

#if defined(__GNUC__)
#define SHEAVES_MUST_USE __attribute__((warn_unused_result))
#define SHEAVES_API __attribute__((visibility("default")))
#define SHEAVES_MALLOC __attribute__((malloc))
#else
#define SHEAVES_MUST_USE
#define SHEAVES_API
#define SHEAVES_MALLOC
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/* At least size bytes at a multiple of 16, uninitialised; NULL and ENOMEM when there is no memory.
 * Size 0 gives a unique pointer.
 *
 * About 20 instructions, no lock, no atomic instruction; what is less common may sleep on a lock
 * for microseconds. Any thread at any time; not for signal handlers. A child of fork() has all
 * blocks. */
SHEAVES_API SHEAVES_MUST_USE SHEAVES_MALLOC void *sheaves_malloc(size_t size);

/* Gives a block back. NULL is ignored, errno is kept. As cheap as sheaves_malloc.
 *
 * An address that this family did not give, or that was given back before, ends the process with
 * one line, at once or when the block returns to its slab. */
SHEAVES_API void sheaves_free(void *block);

#if defined(__cplusplus)
}
#endif

// Objects come back zeroed.
#define SHEAVES_CACHE_ZERO 1

// An object that is freed stays an object of its cache while somebody reads
// (sheaves_rcu_read_lock) who may have its address, though it may be handed out again at once.
#define SHEAVES_CACHE_TYPESAFE_BY_RCU 2

// Every call is checked; slow.
#define SHEAVES_CACHE_DEBUG 4

// For people.
#define SHEAVES_FORMAT_TEXT 0

// For programs.
#define SHEAVES_FORMAT_JSON 1

// A cache of equal objects, shared by all threads.
typedef struct sheaves_cache sheaves_cache;

// A domain: read sections, and grace periods that wait for these alone.
typedef struct sheaves_srcu sheaves_srcu;

// What a cache holds and has done.
typedef struct sheaves_cache_statistics {
    // Bytes of an object.
    size_t object_bytes;
    // Bytes from one object to the next.
    size_t stride_bytes;
    // Bytes of all slabs.
    size_t slab_bytes;
    // Objects with users.
    size_t objects_out;
    // Objects that are deferred until their readers are gone.
    size_t objects_deferred;
    // Objects that are free.
    size_t objects_free;
} sheaves_cache_statistics;

// A counter. Static or part of something, it is made by SHEAVES_COUNTER_INIT or by zero bytes; it
// must not be copied or moved once it is in use.
typedef struct sheaves_counter {
    uint64_t reserved[2];
} sheaves_counter;

// 16 bytes in an object, by which it is deferred. Zero bytes are an idle head.
typedef struct sheaves_head {
    uint64_t reserved[2];
} sheaves_head;

// What is called for a head that was deferred.
typedef void (*sheaves_call)(struct sheaves_head *head);

// A per-CPU object: a place in every slot. A number, 0 for none.
//
// A slot is one row of per-CPU state: a processor, or better, a number that the kernel gives to
// each thread that runs, unique at any time and as low as can be.
typedef uint64_t sheaves_percpu;

// A moment, and the question whether all readers of that moment are gone. A number that may be
// copied, kept, compared (the smaller is over first) and used in any thread, and in parent and
// child of a fork.
typedef uint64_t sheaves_rcu_cookie;

// Sums over the whole process.
typedef struct sheaves_statistics {
    // Objects and blocks with users, in bytes.
    uint64_t used_bytes;
    // Free objects that are kept at hand.
    uint64_t cached_bytes;
    // Free memory that will go back to the system soon.
    uint64_t dirty_bytes;
    // Address space of the heap.
    uint64_t heap_bytes;
    // Blocks above 1 MiB.
    uint64_t huge_bytes;
    // Grace periods that are over.
    uint64_t grace_periods;
    // Interrupts of all processors, or fences in their place, that were used for them.
    uint64_t membarriers;
    // 1 if readers use fences because membarrier is refused.
    uint64_t readers_fence;
    // Calls and objects that wait for their readers.
    uint64_t deferred_objects;
    // Their bytes, as far as they are known.
    uint64_t deferred_bytes;
} sheaves_statistics;

// An open section of a domain.
typedef uint64_t sheaves_srcu_section;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Makes a cache of objects of size bytes at multiples of align, a power of two; 0 stands for 16.
// Both are 64 KiB at most. The name, of which 31 bytes are kept, is for reports and may be NULL.
//
// constructor, unless NULL, is called once for every object when its memory is made, not at every
// allocation: objects keep their contents from free to the next allocation. It may allocate, from
// other caches, too, and must not use the cache. flags are SHEAVES_CACHE_* or 0.
//
// NULL and EINVAL for a wrong argument, ENOSPC when 860 caches exist, ENOMEM. May sleep on a lock
// for moments. A child of fork() may go on using all caches, as with every function below.
//
// What the caller promises:
// name is NULL or a string;
// constructor may be called in any thread, and writes to the object only.
SHEAVES_API
SHEAVES_MUST_USE
struct sheaves_cache *sheaves_cache_create(const char *name,
                                           size_t size,
                                           size_t align,
                                           uint32_t flags,
                                           void (*constructor)(void *object));

// Ends a cache and gives its memory back. Waits for readers where objects are deferred.
//
// 0; EBUSY when objects are still out, then the cache is as usable as before; EINVAL for NULL;
// EDEADLK inside of a read section.
//
// What the caller promises:
// Nobody else uses the cache, and after 0 nobody does.
SHEAVES_API int sheaves_cache_destroy(struct sheaves_cache *cache);

// One object; NULL and ENOMEM when there is no memory, EINVAL for a NULL cache.
//
// About a dozen instructions, no lock, no atomic instruction. What is less common may sleep on a
// lock for microseconds. Not for signal handlers.
//
// What the caller promises:
// cache is NULL or was created.
SHEAVES_API
SHEAVES_MUST_USE
void *sheaves_cache_alloc(struct sheaves_cache *cache);

// Gives an object back; NULL is ignored. As cheap as sheaves_cache_alloc. errno is kept.
//
// A double free, an object of another cache or an address inside of an object ends the process
// with one line: at once in a cache with SHEAVES_CACHE_DEBUG, otherwise when the object returns to
// its slab.
//
// What the caller promises:
// The object is of this cache, and nobody uses it any more.
SHEAVES_API
void sheaves_cache_free(struct sheaves_cache *cache,
                        void *object);

// Gives an object back once everybody who reads now is gone (sheaves_rcu_read_lock). NULL is
// ignored.
//
// As cheap as sheaves_cache_free: nothing is written into the object, nothing is woken, nothing is
// called later; whole sheaves of such objects serve allocations again. Readers may call it. Never
// blocks, with one exception: outside of read sections, and without memory for one sheaf, it waits
// for readers.
//
// What the caller promises:
// The object is of this cache, and nobody uses it any more but readers who have begun before.
SHEAVES_API
void sheaves_cache_free_rcu(struct sheaves_cache *cache,
                            void *object);

// Allocates up to count objects at once, about a nanosecond each, and returns how many there are
// in objects: fewer only when memory is short. 0 for NULL.
//
// What the caller promises:
// objects has place for count pointers.
SHEAVES_API
size_t sheaves_cache_alloc_bulk(struct sheaves_cache *cache,
                                void **objects,
                                size_t count);

// Gives count objects back at once. 0; EINVAL, and nothing happens, for NULL among them.
//
// What the caller promises:
// As for sheaves_cache_free, for each of them; none is there twice.
SHEAVES_API
int sheaves_cache_free_bulk(struct sheaves_cache *cache,
                            void *const *objects,
                            size_t count);

// Gives free objects' memory back to the system as far as whole slabs are free. Interrupts the
// processors that run this process. 0; EAGAIN when a slot could not be reached; EINVAL for NULL.
//
// What the caller promises:
// cache is NULL or was created.
SHEAVES_API
int sheaves_cache_shrink(struct sheaves_cache *cache);

// Writes what the cache holds now to statistics. 0; EINVAL for NULL. Takes the cache's lock.
//
// What the caller promises:
// Both are NULL or valid.
SHEAVES_API
int sheaves_cache_get_statistics(struct sheaves_cache *cache,
                                 struct sheaves_cache_statistics *statistics);

// Adds, without an atomic instruction and without sharing a cache line. The first addition takes 8
// bytes in every slot; where there is no memory for that the counter is one atomic number.
//
// Never waits, and after the first is async-signal-safe. After a fork parent and child count on
// their own. Arithmetic wraps. NULL is ignored.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API
void sheaves_counter_add(struct sheaves_counter *counter,
                         int64_t amount);

// The sum over all slots: what was added before is in it, exactly. Takes a lock; 0 for NULL.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API int64_t sheaves_counter_sum(const struct sheaves_counter *counter);

// The sum without the slots' shares: one load, off by less than 65536 for each slot in use.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API int64_t sheaves_counter_approximate(const struct sheaves_counter *counter);

// Gives the counter's memory back; it is at 0 and may be used anew. NULL is ignored.
//
// What the caller promises:
// The counter is NULL or valid, and nobody else uses it.
SHEAVES_API void sheaves_counter_destroy(struct sheaves_counter *counter);

// Calls call with head once everybody who reads now is gone.
//
// As cheap as a free: no atomic instruction, no lock, nothing woken, nothing allocated. Readers
// may call it; not for signal handlers. The call runs in a thread of the library (sheaves-rcu),
// which starts when it is needed and has all signals blocked; 20 ms later at the latest where
// nothing comes first. It may do anything that a thread may do outside of a read section, and
// defer again. Calls of one thread may change their order; sheaves_rcu_barrier keeps it. A child
// of fork() inherits what is pending, and does it when it defers something itself, polls, or
// waits.
//
// 0; EINVAL for NULL. A head that is deferred already is reported in one line and not deferred
// again.
//
// What the caller promises:
// head is valid, and zero or idle, and only readers use its object until the call.
SHEAVES_API
int sheaves_call_rcu(struct sheaves_head *head,
                     sheaves_call call);

// sheaves_call_rcu, as soon as can be: wakes the library's thread, and interrupts the processors.
//
// What the caller promises:
// As sheaves_call_rcu.
SHEAVES_API
int sheaves_call_rcu_hurry(struct sheaves_head *head,
                           sheaves_call call);

// Frees a block of sheaves_malloc and its family once everybody who reads now is gone. NULL is
// ignored.
//
// Nothing is written into the block, and no thread is woken. As cheap as sheaves_free for blocks
// of up to 32 KiB, which come back in bulk; takes a short lock for each larger one. Readers may
// call it; not for signal handlers. Where there is no memory to remember the block it blocks:
// waits for readers and frees the block itself; inside of a read section, where that cannot be,
// the block is never freed, with a line on standard error for the first one.
//
// What the caller promises:
// block came from that family, and nobody but readers uses it any more.
SHEAVES_API
void sheaves_free_rcu(void *block);

// sheaves_free_rcu with a head in the block for the case that there is no memory: never blocks but
// for short locks, and never leaks. 0; EINVAL where the head does not lie in the block.
//
// What the caller promises:
// As there; and head is zero or idle.
SHEAVES_API
int sheaves_free_rcu_head(void *block,
                          struct sheaves_head *head);

// Returns when everything that was deferred before, by whatever thread, has been called or freed.
// Sleeps; allocates nothing.
//
// 0; EDEADLK, with a line on standard error, inside of a read section or of a deferred call;
// EAGAIN where a slot could not be reached.
SHEAVES_API
int sheaves_rcu_barrier(void);

// Has everything that is deferred done soon, without waiting for that.
SHEAVES_API void sheaves_rcu_flush(void);

// Does what is ready in the calling thread, calls included; true if there was something. For main
// loops of programs that want no thread of the library (SHEAVES_RCU_RECLAIMERS=0). Never waits for
// readers.
SHEAVES_API
bool sheaves_rcu_drive(void);

// count objects of size bytes, zeroed. NULL and ENOMEM when there is no memory, also when the
// product overflows.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_calloc(size_t count, size_t size);

// Changes the size of a block, which may move. NULL allocates; size 0 gives a unique pointer. NULL
// and ENOMEM when there is no memory, then the block stays as it is.
//
// What the caller promises:
// block is NULL or came from this family, and after success is not used any more.
SHEAVES_API
SHEAVES_MUST_USE
void *sheaves_realloc(void *block,
                      size_t size);

// At least size bytes at a multiple of align, a power of two; size need not be a multiple. NULL
// and EINVAL for another alignment, ENOMEM when there is no memory.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_aligned_alloc(size_t align, size_t size);

// Bytes of a block that may be used: at least as many as were asked for. 0 for NULL.
//
// For this the functions that allocate have no alloc_size attribute: with it, a program compiled
// with _FORTIFY_SOURCE=3 is aborted when it uses more than it asked for.
//
// What the caller promises:
// block is NULL or came from this family.
SHEAVES_API
size_t sheaves_usable_size(const void *block);

// Gives all memory that is free back to the system: of the heap, of all caches, of per-CPU memory.
// True if there was some. Interrupts the processors that run this process. Milliseconds.
SHEAVES_API
bool sheaves_trim(void);

// Allocates size bytes in every slot, 1 to 32768, at a multiple of align, a power of two up to
// 4096;
// 0 stands for 8. They are zero. Slots that no thread uses cost no memory.
//
// 0, and the object in *object; EINVAL for a wrong argument; ENOMEM. May sleep on a lock for
// microseconds. A child of fork() has a copy of all objects.
//
// What the caller promises:
// object is NULL or valid.
SHEAVES_API int sheaves_percpu_alloc(size_t size, size_t align, sheaves_percpu *object);

// Gives an object back; 0 is ignored. EINVAL, and nothing happens, for one that is not out: freed
// before, or never allocated.
//
// What the caller promises:
// Nobody uses the object any more, in any slot.
SHEAVES_API
int sheaves_percpu_free(sheaves_percpu object);

// Adds to the 64-bit word of the current slot that begins byte bytes into the object, wrapping.
//
// One transaction: no atomic instruction, no lock. Never waits; async-signal-safe. EINVAL where no
// word can be: byte is no multiple of 8 or beyond the object, the object's alignment is below 8.
//
// What the caller promises:
// The object is out, and these bytes are changed by transactions only.
SHEAVES_API
int sheaves_percpu_add(sheaves_percpu object,
                       size_t byte,
                       uint64_t amount);

// The word of the current slot: a hint, old as soon as it is returned. 0 where no word can be.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API uint64_t sheaves_percpu_load(sheaves_percpu object, size_t byte);

// Replaces the word of the current slot by desired if it holds expected; whether it did. False
// where no word can be. As cheap as sheaves_percpu_add; async-signal-safe.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API
bool sheaves_percpu_compare_store(sheaves_percpu object,
                                  size_t byte,
                                  uint64_t expected,
                                  uint64_t desired);

// The sum of a word over all slots, wrapping. Additions that go on meanwhile may be in it or not.
// 0 where no word can be.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API
uint64_t sheaves_percpu_sum(sheaves_percpu object,
                            size_t byte);

// The address of an object in a slot from 0 to sheaves_slot_count(), whether or not a thread has
// used the slot; the last is that of threads without a slot. NULL where there is none.
//
// Other threads may be at it by transactions, so access is by atomics or where the program knows
// better.
SHEAVES_API
void *sheaves_percpu_address(sheaves_percpu object,
                             size_t slot);

// How many slots there are: constant, at least 1.
SHEAVES_API size_t sheaves_slot_count(void);

// The slot on which the thread runs now, a hint; -1 where it has none.
SHEAVES_API int sheaves_current_slot(void);

// Begins a read section: what can be reached now stays valid until it ends.
//
// Two loads and a store for the outermost section, no atomic instruction, no fence, and inlined
// where the compiler can. Sections nest. Any thread may read at any time, without registration,
// also in signal handlers and in destructors of thread-local data. Never blocks. Sections that are
// open during a fork stay open in the child for the thread that forked.
//
// A thread that ends inside a section, by pthread_exit or cancelled, leaves it open for good: no
// grace period ends any more, which is reported on standard error.
SHEAVES_API
void sheaves_rcu_read_lock(void);

// Ends the innermost read section of this thread. Ending one that was not begun ends the process.
SHEAVES_API
void sheaves_rcu_read_unlock(void);

// True while the calling thread is inside of a read section.
SHEAVES_API bool sheaves_rcu_is_reading(void);

// Tells that the calling thread will not read for a while, which its next section ends. Does
// nothing inside of a section. Grace periods interrupt nobody while every thread that has read
// more than 256 times has called this, ended, waits for readers, or defers something now and then.
// Never blocks. Not for signal handlers.
SHEAVES_API
void sheaves_rcu_enter_idle(void);

// Waits until all readers that have begun before this call are gone.
//
// Whoever calls this does the work itself, or shares what somebody else does: from less than a
// microsecond to as long as the longest reader takes. Sleeps; not for signal handlers.
//
// 0; EDEADLK, with a line on standard error, inside of a read section: it would wait for ever.
SHEAVES_API int sheaves_rcu_synchronize(void);

// sheaves_rcu_synchronize, and never in line behind threads that ask again and again.
SHEAVES_API int sheaves_rcu_synchronize_expedited(void);

// The moment of now. Starts nothing: a grace period that others ask for will do. Two loads and a
// fence. Never blocks; async-signal-safe.
SHEAVES_API
sheaves_rcu_cookie sheaves_rcu_get_cookie(void);

// The moment of now, for which a grace period is started if it may at this moment. Never blocks;
// async-signal-safe.
SHEAVES_API
sheaves_rcu_cookie sheaves_rcu_start_poll(void);

// As sheaves_rcu_start_poll, at once: interrupts all processors that run this process.
SHEAVES_API sheaves_rcu_cookie sheaves_rcu_start_poll_expedited(void);

// Are all readers of that moment gone? Does what can be done for it without waiting, if it was
// asked for. Once true it stays true. Never blocks; async-signal-safe.
SHEAVES_API bool sheaves_rcu_poll(sheaves_rcu_cookie cookie);

// Waits until all readers of that moment are gone. Sleeps; not for signal handlers.
//
// 0; EDEADLK where that is not known and the caller reads itself; EINVAL for a number that is no
// cookie: it lies in the future.
SHEAVES_API
int sheaves_rcu_wait(sheaves_rcu_cookie cookie);

// Expedites all grace periods of the process until sheaves_rcu_expedite_end. Nests.
// Async-signal-safe.
SHEAVES_API void sheaves_rcu_expedite_begin(void);

// Ends what sheaves_rcu_expedite_begin began, in any thread. 0; EINVAL if nothing was.
SHEAVES_API int sheaves_rcu_expedite_end(void);

// Tells that the program has started: grace periods are expedited from the first one on until now,
// for a second at least and for ten at most. Async-signal-safe.
SHEAVES_API
void sheaves_rcu_end_startup(void);

// Version of the library that runs, as MAJOR.MINOR.PATCH. The header's is in SHEAVES_VERSION.
SHEAVES_API const char *sheaves_version(void);

// Prints statistics of the heap and of all caches to a file descriptor, as SHEAVES_FORMAT_TEXT or
// _JSON. Allocates nothing. 0; EINVAL for another format or a negative descriptor. A descriptor
// that fails loses the text.
SHEAVES_API
int sheaves_print_statistics(int fd,
                             int format);

// Writes sums over the whole process to statistics, as many bytes as the caller's structure has:
// pass sizeof *statistics. 0; EINVAL for NULL. Takes every cache's lock for a moment.
//
// What the caller promises:
// statistics is NULL or valid for bytes bytes.
SHEAVES_API
int sheaves_get_statistics(struct sheaves_statistics *statistics,
                           size_t bytes);

// The engine that carries transactions out: "rseq" or "portable".
SHEAVES_API const char *sheaves_engine(void);

// Makes a domain; 32 bytes in each slot. NULL and ENOMEM.
SHEAVES_API SHEAVES_MUST_USE struct sheaves_srcu *sheaves_srcu_create(void);

// Ends a domain. NULL is ignored.
//
// What the caller promises:
// No section of it is open, and nobody uses it any more.
SHEAVES_API void sheaves_srcu_destroy(struct sheaves_srcu *domain);

// Begins a section, which sheaves_srcu_read_unlock ends, in whatever thread. It may sleep and
// last. One transaction, no atomic instruction. Never blocks; async-signal-safe. Sections that
// are open during a fork count as over in the child. 0 for NULL.
//
// What the caller promises:
// The domain is NULL or was created.
SHEAVES_API
SHEAVES_MUST_USE
sheaves_srcu_section sheaves_srcu_read_lock(struct sheaves_srcu *domain);

// Ends a section.
//
// What the caller promises:
// The section is of this domain and was not ended before; or the domain is NULL.
SHEAVES_API
void sheaves_srcu_read_unlock(struct sheaves_srcu *domain,
                              sheaves_srcu_section section);

// Waits until all sections of the domain that have begun before this call are over. Sleeps; never
// returns inside of a section of this domain. 0; EINVAL for NULL.
//
// What the caller promises:
// The domain is NULL or was created.
SHEAVES_API
int sheaves_srcu_synchronize(struct sheaves_srcu *domain);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SHEAVES_H */

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
