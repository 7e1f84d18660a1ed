/* Sheaves: per-CPU memory and RCU for programs on Linux. C99, C++11 and later.
 *
 * Generated from the library's source by `cargo xtask header`: do not edit.
 *
 * Functions that return int return 0 or a value of errno.h; those that return a pointer return NULL
 * and set errno. An argument that is recognised as wrong is EINVAL, and nothing happens.
 *
 * Options are variables of the environment, read once:
 *   SHEAVES_ENGINE: auto, rseq, rseq-cpu, portable; default: auto
 *       How per-CPU transactions are carried out: by rseq where it is available, with slots
 *       numbered by mm_cid, or by cpu_id on request and where the kernel has no mm_cid or refuses
 *       membarrier(2); otherwise by the portable engine.
 *   SHEAVES_SLOTS: 1 to 8192; default: possible CPUs
 *       Number of virtual slots of the portable engine.
 *   SHEAVES_HUGE_PAGES: never, auto, always; default: auto
 *       Which parts of 2 MiB of the heap ask for huge pages: with auto those that have been in
 *       use as a whole for ten seconds, in a process that has not forked, unless that would split
 *       many mappings; with always all.
 *   SHEAVES_DECAY_MS: -1 to 3600000; default: 1000
 *       Milliseconds for which unused memory is kept before later calls, or the library's thread,
 *       return it to the kernel; with 0 it is not kept, with -1 for ever.
 *   SHEAVES_LIMIT: auto, bytes, 1% to 100%; default: none
 *       A soft limit on the memory of the heap, 1M or more (suffixes K, M, G, T): from 7/8 of it
 *       on unused memory returns to the kernel at once. No allocation fails because of it. With
 *       auto the limit of the control groups, with a percentage that part of it, or of the
 *       machine's memory.
 *   SHEAVES_PROF: 1024 or more; default: off
 *       Profiles the heap from the start of the program: records one allocation in this many
 *       bytes on average, for instance in 524288.
 *   SHEAVES_GUARD: 0, 1/1 to 1/1048576; default: 0
 *       With 1/N one in N samples of the heap lies beside an inaccessible page, so that its
 *       misuse is reported: see docs/guard.md. There is a sample in 512 KiB, or as SHEAVES_PROF
 *       says. Without effect in hardened and debug mode.
 *   SHEAVES_HARDEN: 0, 1, 2; default: 0
 *       With 1 frees wait in a quarantine and are checked, and blocks have canaries: see
 *       SECURITY.md. With 2 there is also a zone right behind the requested bytes, and there are
 *       inaccessible pages between slabs, at the price of the fast path.
 *   SHEAVES_DEBUG: 0, 1; default: 0
 *       With 1 all that SHEAVES_HARDEN=2 does except its random order; also red zones before
 *       blocks, the stacks of last frees, and leaks at exit.
 *   SHEAVES_CONTROL: 0, 1; default: 1
 *       With 0 the process has no control page, by which sheaves stat, top, rcu, export, prof and
 *       guard ask a running process.
 *   SHEAVES_STATS: 0, 1 or text, json, start; default: 0
 *       Statistics of all caches and size classes at exit, as text or as JSON. With start
 *       instead, under the preload object, a line on standard error when a program starts: on
 *       which engine it runs, or whose malloc it uses.
 *   SHEAVES_STATS_FILE: a path; default: standard error
 *       The file to which the statistics are appended. %p stands for the number of the process.
 *   SHEAVES_PROF_FILE: a path; default: none
 *       The file to which a heap profile is written, for sheaves prof heap, if SHEAVES_PROF,
 *       SHEAVES_DEBUG or sheaves prof on has turned it on: at exit, and before when a limit is
 *       near or memory has run out. %p stands for the number of the process.
 *   SHEAVES_RCU: normal, expedited; default: as the program asks
 *       Makes all grace periods normal, or all expedited.
 *   SHEAVES_RCU_STALL_MS: 0 to 86400000; default: 1000
 *       Age in milliseconds at which a grace period that does not end, or a deferred call that
 *       does not return, is reported; 0 for never.
 *   SHEAVES_RCU_FENCES: 0, 1; default: 0
 *       With 1 readers use fences, as if membarrier(2) were refused.
 *   SHEAVES_RCU_RECLAIMERS: 0, 1, slots; default: 1
 *       Threads of the library that run deferred calls. With 0 it starts none: the program calls
 *       sheaves_rcu_reclaim or rcu::defer::reclaim, and unused memory returns only when something
 *       is freed. With slots there is one for each CPU that the program may use, 16 at most, each
 *       bound to its CPU. A thread that a deferred call starts stays bound to that CPU, and so
 *       does a program that it starts by posix_spawn, system or vfork, but not one by fork and
 *       execve.
 *   SHEAVES_RCU_AGE_MS: 1 to 60000; default: 20
 *       How long something deferred waits, in milliseconds, before a grace period is started for
 *       it.
 *   SHEAVES_RCU_BYTES: 4096 or more; default: 256 MiB
 *       Deferred bytes above which threads that defer help to take back what is ready. Above 1/64
 *       of it grace periods are started at once, above 1/8 they are expedited.
 */

#ifndef SHEAVES_H
#define SHEAVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__linux__) || UINTPTR_MAX != UINT64_MAX
#error "Sheaves needs Linux on a 64-bit machine"
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

/* At least size bytes at a multiple of 16, uninitialised; NULL and ENOMEM when memory is out. Size
 * 0 gives a unique pointer.
 *
 * About 20 instructions, no lock, no atomic instruction. The slow path may sleep on a lock for
 * microseconds. For any thread at any time; not for signal handlers. After fork() the child has a
 * copy of all blocks. */
SHEAVES_API SHEAVES_MUST_USE SHEAVES_MALLOC void *sheaves_malloc(size_t size);

/* Frees a block. NULL is ignored, errno is kept. As cheap as sheaves_malloc.
 *
 * An address that is not a block of this family, or was freed before, aborts the process with one
 * line, at once or when the block returns to its slab. Until then a block that was freed twice may
 * be allocated twice; with SHEAVES_HARDEN each free is checked. */
SHEAVES_API void sheaves_free(void *block);

#if defined(__cplusplus)
}
#endif

// Objects are zeroed when they are allocated.
#define SHEAVES_CACHE_ZERO 1

// A freed object stays an object of its cache until a grace period has ended: a reader
// (sheaves_rcu_read_lock) that still has its address may find it allocated again, but never
// another type.
#define SHEAVES_CACHE_TYPESAFE_BY_RCU 2

// Every call is checked; slower.
#define SHEAVES_CACHE_DEBUG 4

// For humans.
#define SHEAVES_FORMAT_TEXT 0

// For programs.
#define SHEAVES_FORMAT_JSON 1

// A cache of objects of one size, shared by all threads.
typedef struct sheaves_cache sheaves_cache;

// A domain: read sections, and grace periods that wait for these only.
typedef struct sheaves_srcu sheaves_srcu;

// Sizes and counts of a cache.
typedef struct sheaves_cache_statistics {
    // Bytes of an object.
    size_t object_bytes;
    // Bytes from one object to the next.
    size_t stride_bytes;
    // Bytes of all slabs.
    size_t slab_bytes;
    // Objects in use.
    size_t objects_out;
    // Objects that are deferred for a grace period.
    size_t objects_deferred;
    // Objects that are free.
    size_t objects_free;
} sheaves_cache_statistics;

// A counter, initialised by SHEAVES_COUNTER_INIT or by zero bytes. It may be static or a member;
// it must not be copied or moved once it is in use.
typedef struct sheaves_counter {
    uint64_t reserved[2];
} sheaves_counter;

// A member of an object, 16 bytes, by which the object is deferred. Zero bytes are an idle head.
typedef struct sheaves_head {
    uint64_t reserved[2];
} sheaves_head;

// The callback for a deferred head.
typedef void (*sheaves_call)(struct sheaves_head *head);

// A per-CPU object, with a copy in every slot. A number, 0 for none.
//
// A slot belongs to a CPU or, where the kernel has it, to a concurrency id (mm_cid): a number of
// each running thread, unique in the process and as low as possible.
typedef uint64_t sheaves_percpu;

// Snapshot of the grace-period state, as of the kernel's get_state_synchronize_rcu. A number that
// may be copied, stored, compared (the smaller one completes first) and used in any thread, and in
// parent and child of a fork.
typedef uint64_t sheaves_rcu_cookie;

// Sums over the whole process.
typedef struct sheaves_statistics {
    // Objects and blocks in use, in bytes.
    uint64_t used_bytes;
    // Free objects in caches.
    uint64_t cached_bytes;
    // Free memory that will be returned to the kernel soon.
    uint64_t dirty_bytes;
    // Address space of slabs; large_bytes are not in it.
    uint64_t heap_bytes;
    // Blocks above 1 MiB.
    uint64_t large_bytes;
    // Completed grace periods.
    uint64_t grace_periods;
    // Interrupts of all CPUs, or fences in their place, that these grace periods used.
    uint64_t membarriers;
    // 1 if readers use fences because membarrier is refused.
    uint64_t readers_fence;
    // Callbacks and objects that wait for a grace period.
    uint64_t deferred_objects;
    // Their bytes, as far as they are known.
    uint64_t deferred_bytes;
    // Bytes of free slabs that were returned to the kernel so far.
    uint64_t purged_bytes;
    // All bytes that were returned to the kernel so far: also pages between the objects of used
    // slabs, and mappings.
    uint64_t returned_bytes;
    // Bytes of slabs that were used again after their pages had been returned, so far.
    uint64_t refilled_bytes;
    // How often unused memory was looked for.
    uint64_t keeper_looks;
    // Processor time that this took, in microseconds.
    uint64_t keeper_busy_us;
} sheaves_statistics;

// An open section of a domain.
typedef uint64_t sheaves_srcu_section;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Creates a cache of objects of size bytes at multiples of align, a power of two; 0 stands for 16.
// Both are 64 KiB at most. The name is for reports and may be NULL; 31 bytes of it are kept.
//
// constructor, unless NULL, is called once for every object when its slab is made, not at every
// allocation: objects keep their contents from a free to the next allocation. It may allocate,
// also from other caches, but must not use this cache. flags are SHEAVES_CACHE_* or 0.
//
// NULL and EINVAL for a wrong argument, also a constructor with SHEAVES_CACHE_ZERO; ENOSPC when
// 861 caches exist (813 in a hardened process), ENOMEM. May sleep on a lock briefly. After fork()
// a child may continue to use all caches; that holds for every function below.
// What the caller promises:
// name is NULL or a string; constructor may be called in any thread, and writes to the object
// only.
SHEAVES_API
SHEAVES_MUST_USE
struct sheaves_cache *sheaves_cache_create(const char *name,
                                           size_t size,
                                           size_t align,
                                           uint32_t flags,
                                           void (*constructor)(void *object));

// Destroys a cache and frees its memory. Interrupts the CPUs that run this process, and waits for
// grace periods if objects were ever deferred or the cache is type-safe.
//
// 0; EBUSY when objects are in use or a slot could not be drained, then the cache stays usable;
// EINVAL for NULL; EDEADLK inside a read section.
//
// What the caller promises:
// No other thread uses the cache; after 0 it is not used any more.
SHEAVES_API
int sheaves_cache_destroy(struct sheaves_cache *cache);

// Allocates an object; NULL and ENOMEM when memory is out, EINVAL for a NULL cache.
//
// About a dozen instructions, no lock, no atomic instruction. The slow path may sleep on a lock
// for microseconds. Not for signal handlers.
//
// What the caller promises:
// cache is NULL or was created.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_cache_alloc(struct sheaves_cache *cache);

// Frees an object; NULL is ignored. As cheap as sheaves_cache_alloc. errno is kept.
//
// A double free, an object of another cache or an address inside an object aborts the process with
// one line: at once in a cache with SHEAVES_CACHE_DEBUG, otherwise when the object returns to its
// slab.
//
// What the caller promises:
// The object is of this cache and is not used any more.
SHEAVES_API
void sheaves_cache_free(struct sheaves_cache *cache,
                        void *object);

// Frees an object after a grace period (sheaves_rcu_read_lock), like the kernel's kfree_rcu. NULL
// is ignored.
//
// As cheap as sheaves_cache_free: it writes nothing into the object and runs no callback. After
// the grace period whole sheaves of such objects serve allocations again. When the slot's sheaf is
// full it takes a short lock, and may start or wake the library's thread. Readers may call it; not
// for signal handlers. Without memory for a sheaf it waits for a grace period. Inside a read
// section it cannot wait: then the object is never freed, and the first one is reported in one
// line.
//
// What the caller promises:
// The object is of this cache, and only readers that began before this call still use it.
SHEAVES_API
void sheaves_cache_free_rcu(struct sheaves_cache *cache,
                            void *object);

// Allocates count objects at once, about a nanosecond each, and stores their addresses in objects.
// Returns their number: less than count only when memory is out, and 0 for NULL. errno is not set.
//
// What the caller promises:
// objects has room for count pointers.
SHEAVES_API
size_t sheaves_cache_alloc_bulk(struct sheaves_cache *cache,
                                void **objects,
                                size_t count);

// Frees count objects at once. 0; EINVAL, and nothing happens, if any of them is NULL.
//
// What the caller promises:
// As for sheaves_cache_free, for each of them; none occurs twice.
SHEAVES_API
int sheaves_cache_free_bulk(struct sheaves_cache *cache,
                            void *const *objects,
                            size_t count);

// Gives slabs whose objects are all free back to the heap, which returns them to the kernel after
// SHEAVES_DECAY_MS or in sheaves_trim, and returns pages of free objects in other slabs to the
// kernel. Interrupts the CPUs that run this process. May start or wake the library's thread, which
// releases slabs of a type-stable cache after their readers. 0; EAGAIN when a slot could not be
// drained; EINVAL for NULL.
//
// What the caller promises:
// cache is NULL or was created.
SHEAVES_API
int sheaves_cache_shrink(struct sheaves_cache *cache);

// Writes the current sizes and counts of the cache to statistics, as much as the caller's
// structure has room for: pass sizeof *statistics as bytes. What this library does not know is 0.
// 0; EINVAL for NULL. Takes the cache's lock.
//
// What the caller promises:
// Both are NULL or valid, statistics for bytes bytes.
SHEAVES_API
int sheaves_cache_get_statistics(struct sheaves_cache *cache,
                                 struct sheaves_cache_statistics *statistics,
                                 size_t bytes);

// Adds amount, without an atomic instruction and without sharing a cache line. The first addition
// takes 8 bytes in every slot; without memory for that the counter is one atomic number.
//
// The first addition may sleep on a lock for microseconds. Later ones never wait and are
// async-signal-safe. After fork() parent and child count separately. Arithmetic wraps. NULL is
// ignored.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API
void sheaves_counter_add(struct sheaves_counter *counter,
                         int64_t amount);

// The exact sum over all slots, with every addition made before. Takes a lock; 0 for NULL.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API int64_t sheaves_counter_sum(const struct sheaves_counter *counter);

// The sum without the parts that are still in slots: one load, off by at most 65536 for each
// slot in use, and 65536 for a part that is being added to it.
//
// What the caller promises:
// The counter is NULL or valid.
SHEAVES_API int64_t sheaves_counter_approximate(const struct sheaves_counter *counter);

// Frees the counter's memory; it is 0 and may be used again. May sleep on a lock. NULL is ignored.
//
// What the caller promises:
// The counter is NULL or valid, and no other thread uses it.
SHEAVES_API
void sheaves_counter_destroy(struct sheaves_counter *counter);

// Defers call(head) until after a grace period, like the kernel's call_rcu.
//
// As cheap as a free: no atomic instruction, no lock, no allocation. When the slot has no sheaf of
// heads, or a full one, it takes a short lock, and may start or wake the library's thread. Readers
// may call it; not for signal handlers. The callback runs in a thread of the library (sheaves-rcu)
// that is started on demand, with all signals blocked but those that faults raise. Where there is
// no such thread, it runs in sheaves_rcu_reclaim, sheaves_rcu_barrier and sheaves_srcu_barrier,
// with the signals of their caller. If no other event starts the work, it starts after
// SHEAVES_RCU_AGE_MS, 20 ms by default. It may do anything that a thread may do outside of a read
// section, but pthread_exit, and defer again: the grace period for that begins at once. Callbacks
// of one thread may run in another order; sheaves_rcu_barrier waits for all earlier ones. After
// fork() the child inherits pending callbacks, and runs them when it defers, reclaims or waits
// itself.
//
// 0; EINVAL for NULL and for a head that is not at a multiple of 8. A head that is deferred
// already is reported in one line and not deferred again.
//
// What the caller promises:
// head is valid, and zero or idle; until the callback only readers use its object.
SHEAVES_API
int sheaves_call_rcu(struct sheaves_head *head,
                     sheaves_call call);

// sheaves_call_rcu as soon as possible: wakes the library's thread, and interrupts the CPUs.
//
// What the caller promises:
// As sheaves_call_rcu.
SHEAVES_API int sheaves_call_rcu_hurry(struct sheaves_head *head, sheaves_call call);

// Frees a block of sheaves_malloc and its family after a grace period. NULL is ignored.
//
// It writes nothing into the block. As cheap as sheaves_free for blocks of up to 1 MiB, which are
// freed in bulk: when the slot's sheaf is full it takes a short lock, and may start or wake the
// library's thread. It takes a lock for each larger block. Readers may call it; not for signal
// handlers. Without memory to record the block, it waits for a grace period and
// frees the block itself. Inside a read section it cannot wait: then the block is never freed, and
// the first one is reported in one line.
//
// What the caller promises:
// block came from that family, and only readers still use it.
SHEAVES_API
void sheaves_free_rcu(void *block);

// sheaves_free_rcu for a block that contains a head, by which it is deferred: it needs no memory,
// so nothing leaks and it never waits for a grace period. Takes a short lock in each call, and may
// start or wake the library's thread; blocks are freed one by one. Not for signal handlers. 0,
// also for a NULL block; EINVAL if the head is not inside the block.
//
// What the caller promises:
// As there; head is zero or idle.
SHEAVES_API
int sheaves_free_rcu_head(void *block,
                          struct sheaves_head *head);

// Returns when everything that any thread deferred before has been called or freed. Sleeps;
// allocates nothing.
//
// 0; EDEADLK, with a line on standard error, inside a read section or a deferred callback; EAGAIN
// when a slot could not be drained.
SHEAVES_API
int sheaves_rcu_barrier(void);

// Starts the work on everything that is deferred, without waiting for it.
SHEAVES_API void sheaves_rcu_flush(void);

// Runs in the calling thread what is ready, callbacks included; true if there was any. For main
// loops of programs that want no thread of the library (SHEAVES_RCU_RECLAIMERS=0). Never waits for
// readers, but callbacks may. Does nothing inside a read section or a callback, and while another
// thread reclaims. Not for signal handlers.
SHEAVES_API
bool sheaves_rcu_reclaim(void);

// Allocates count objects of size bytes, zeroed. NULL and ENOMEM when memory is out or the product
// overflows.
SHEAVES_API
SHEAVES_MUST_USE
void *sheaves_calloc(size_t count,
                     size_t size);

// Changes the size of a block, which may move. With a NULL block it is sheaves_malloc; size 0
// gives a unique pointer. On failure NULL and ENOMEM, and the block is unchanged.
//
// What the caller promises:
// block is NULL or came from this family, and after success is not used any more.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_realloc(void *block, size_t size);

// Allocates at least size bytes at a multiple of align, a power of two; size need not be a
// multiple of align. NULL and EINVAL for another alignment, ENOMEM when memory is out.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_aligned_alloc(size_t align, size_t size);

// sheaves_realloc to count elements of size bytes. NULL and ENOMEM, and the block is unchanged,
// also when the product overflows.
//
// What the caller promises:
// As sheaves_realloc.
SHEAVES_API SHEAVES_MUST_USE void *sheaves_reallocarray(void *block, size_t count, size_t size);

// sheaves_aligned_alloc as posix_memalign(3): 0, and the block in *place; EINVAL for an alignment
// that is not a power of two and a multiple of 8, ENOMEM when memory is out, and *place is
// unchanged. errno is kept.
//
// What the caller promises:
// place is NULL or valid.
SHEAVES_API
int sheaves_posix_memalign(void **place,
                           size_t align,
                           size_t size);

// free_sized of C23: sheaves_free of a block that was allocated with this size. NULL is ignored.
// In a hardened process a size that cannot be that of the block aborts the process with one line:
// one of another size class, unless sheaves_realloc may have resized the block in place to it; any
// other size with SHEAVES_HARDEN=2 or SHEAVES_DEBUG=1, but for blocks from 56 KiB on one that has
// the same number of pages.
//
// What the caller promises:
// As sheaves_free; size is that of the allocation.
SHEAVES_API
void sheaves_free_sized(void *block,
                        size_t size);

// free_aligned_sized of C23: the same for a block of sheaves_aligned_alloc.
//
// What the caller promises:
// As sheaves_free; align and size are those of the allocation.
SHEAVES_API void sheaves_free_aligned_sized(void *block, size_t align, size_t size);

// To be called before the program puts itself into a sandbox (seccomp). The library ends its
// threads, and from then on calls only mmap, munmap, mremap, mprotect, madvise and futex, in this
// process and its children. Deferred calls then run only in sheaves_rcu_reclaim and in what waits
// for them (sheaves_rcu_barrier, sheaves_srcu_barrier, sheaves_srcu_destroy), and a grace period
// may take 10 ms. Heap profiles end, the command sheaves gets no answer, and nothing is reported
// on standard error any more. Waits until the threads have ended: for a second at most, or for a
// minute while one of them runs or waits for a CPU; in a deferred call not at all. Not for signal
// handlers. The preload object calls this by itself before prctl(PR_SET_SECCOMP) and
// syscall(SYS_seccomp).
SHEAVES_API
void sheaves_before_sandbox(void);

// Bytes of a block that may be used: at least the requested size. 0 for NULL.
//
// This is why the allocating functions have no alloc_size attribute: with it, _FORTIFY_SOURCE=3
// would abort a program that uses more than it requested.
//
// What the caller promises:
// block is NULL or came from this family.
SHEAVES_API size_t sheaves_usable_size(const void *block);

// Returns unused memory to the kernel: of the heap, of all caches and of per-CPU memory. At most
// keep_bytes stay free with their old contents, for the next allocations. True if free slabs or
// mappings were returned: pages between objects and per-CPU memory do not count. Interrupts the
// CPUs that run this process; takes milliseconds.
//
// Without this call what is unused goes back after SHEAVES_DECAY_MS.
SHEAVES_API
bool sheaves_trim(size_t keep_bytes);

// Returns unused memory to the kernel until the heap has at most that many bytes, in use or free
// with old contents; true when that was reached. Begins with what is free, and does what
// sheaves_trim does only if that does not suffice.
SHEAVES_API
bool sheaves_release_to(size_t bytes);

// Sets a limit in bytes, at least 1 MiB, on the memory of the heap; 0 removes it. Replaces
// SHEAVES_LIMIT. No allocation fails because of it: near the limit unused memory goes back to the
// kernel at once, and the first time one line on standard error says so.
SHEAVES_API
void sheaves_set_limit(size_t bytes);

// Sets a function that is called when unused memory was returned near the limit, with the bytes of
// the heap and the limit. It may free memory. The library's thread calls it if there is one, as a
// deferred call; otherwise a thread that allocates or frees does, perhaps inside a read section or
// under locks of the program. NULL removes it.
SHEAVES_API
void sheaves_on_near_limit(void (*callback)(size_t heap_bytes, size_t limit_bytes));

// Allocates size bytes, 1 to 32768, in every slot; they are zero. Their address is a multiple of
// align, a power of two up to 4096; 0 stands for 8. Slots that no thread uses cost no memory.
//
// 0, and the object in *object; EINVAL for a wrong argument; ENOMEM. May sleep on a lock for
// microseconds. After fork() the child has a copy of all objects. Where the kernel refuses address
// space for the slots, the first call of this library that needs them aborts the process with one
// line.
//
// What the caller promises:
// object is NULL or valid.
SHEAVES_API
int sheaves_percpu_alloc(size_t size,
                         size_t align,
                         sheaves_percpu *object);

// Frees an object; 0 is ignored. May sleep on a lock. EINVAL, and nothing happens, for an object
// that is not allocated. A later object may have the same number: a second free may be that of
// another object.
//
// What the caller promises:
// The object is not used any more, in any slot.
SHEAVES_API
int sheaves_percpu_free(sheaves_percpu object);

// Adds to the 64-bit word at offset byte of the object in the current slot, wrapping.
//
// One transaction: no atomic instruction, no lock. Never waits; async-signal-safe. EINVAL unless
// byte is a multiple of 8, the word is inside the object and the object's alignment is at least 8.
//
// What the caller promises:
// The object is allocated, and only transactions change these bytes.
SHEAVES_API
int sheaves_percpu_add(sheaves_percpu object,
                       size_t byte,
                       uint64_t amount);

// The word of the current slot: a hint, since the thread may migrate. 0 for an invalid offset.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API uint64_t sheaves_percpu_load(sheaves_percpu object, size_t byte);

// Replaces the word of the current slot by desired if it holds expected; true if it did. False for
// an invalid offset. As cheap as sheaves_percpu_add; async-signal-safe.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API
bool sheaves_percpu_compare_store(sheaves_percpu object,
                                  size_t byte,
                                  uint64_t expected,
                                  uint64_t desired);

// The sum of a word over all slots, wrapping. It may miss additions that run at the same time. 0
// for an invalid offset.
//
// What the caller promises:
// As sheaves_percpu_add.
SHEAVES_API
uint64_t sheaves_percpu_sum(sheaves_percpu object,
                            size_t byte);

// The address of an object in a slot, whether or not a thread has used the slot. It is valid while
// the object is allocated. Slots have the numbers from 0; sheaves_slot_count() stands for the
// memory that all threads without a slot share. NULL, and errno is kept, for a greater number,
// when memory is out, and for what was never an object, but for one such value in 65536. May sleep
// on a lock.
//
// Other threads may run transactions on it: access it by atomics, unless the program prevents
// that.
SHEAVES_API
void *sheaves_percpu_address(sheaves_percpu object,
                             size_t slot);

// The number of slots: constant, at least 1.
SHEAVES_API size_t sheaves_slot_count(void);

// The slot of the calling thread, a hint; -1 if it has none.
SHEAVES_API int sheaves_current_slot(void);

// Records samples of allocations from now on, on average one in rate_bytes, from 1 KiB on; 0
// stands for 512 KiB. Forgets earlier samples. The option SHEAVES_PROF does the same when the
// program is loaded.
//
// Callers are found by frame pointers (-fno-omit-frame-pointer), without these by the tables of
// libgcc from version 12 on, which the first call loads by dlopen; else only the innermost one is
// known. Interrupts the CPUs that run this process. 0; EINVAL for a lower rate; ENOMEM.
SHEAVES_API
int sheaves_prof_start(size_t rate_bytes);

// Records no further samples. Those that there are stay in dumps until they are freed.
SHEAVES_API void sheaves_prof_stop(void);

// Writes the samples to a file descriptor, for the command `sheaves prof heap`. 0; EINVAL for a
// negative descriptor. Text that the descriptor does not accept is lost. Interrupts the CPUs that
// run this process.
SHEAVES_API
int sheaves_prof_dump(int fd);

// Begins a read section: what the thread can reach stays valid until the section ends.
//
// Two loads and a store for the outermost section, no atomic instruction, no fence; inlined where
// the compiler can. Sections nest. Any thread may read at any time, without registration, also in
// signal handlers and in destructors of thread-local data. Never blocks. Sections that are open at
// a fork stay open in the child for the thread that forked.
//
// A thread that ends inside a section, by pthread_exit or cancellation, leaves it open forever: no
// later grace period ends, which is reported on standard error.
SHEAVES_API
void sheaves_rcu_read_lock(void);

// Ends the innermost read section of this thread. Without an open section the process aborts.
SHEAVES_API void sheaves_rcu_read_unlock(void);

// True while the calling thread is inside a read section.
SHEAVES_API bool sheaves_rcu_is_reading(void);

// Marks the calling thread idle until its next read section. Does nothing inside a section. Never
// blocks. Not for signal handlers.
//
// A thread that has read more than 256 times makes grace periods interrupt the CPUs, unless it has
// called this, has ended, waits for a grace period, or defers now and then.
SHEAVES_API
void sheaves_rcu_enter_idle(void);

// Waits for a grace period: until all readers that began before this call have ended.
//
// The calling thread does the work itself or shares the result of another thread's: it takes from
// less than a microsecond to as long as the longest reader. Sleeps; not for signal handlers.
//
// 0; EDEADLK, with a line on standard error, inside a read section, where it would deadlock.
SHEAVES_API
int sheaves_rcu_synchronize(void);

// sheaves_rcu_synchronize that spins for longer before it sleeps, for a lower latency.
SHEAVES_API int sheaves_rcu_synchronize_expedited(void);

// Takes a snapshot, and starts no grace period: the snapshot completes with one that another
// thread starts. Two loads and a fence. Never blocks; async-signal-safe.
SHEAVES_API sheaves_rcu_cookie sheaves_rcu_get_cookie(void);

// Takes a snapshot and starts a grace period for it, if one can be started now. Never blocks;
// async-signal-safe.
SHEAVES_API sheaves_rcu_cookie sheaves_rcu_start_poll(void);

// As sheaves_rcu_start_poll, but immediately: interrupts all CPUs that run this process.
SHEAVES_API sheaves_rcu_cookie sheaves_rcu_start_poll_expedited(void);

// True if all readers from before the snapshot have ended. Advances the grace period as far as
// possible without waiting, if one was requested. Once true it stays true. Never blocks;
// async-signal-safe.
SHEAVES_API bool sheaves_rcu_poll(sheaves_rcu_cookie cookie);

// Waits until all readers from before the snapshot have ended. Sleeps; not for signal handlers.
//
// 0; EDEADLK inside a read section, unless the snapshot is complete; EINVAL for a number that is
// not a snapshot because it is in the future.
SHEAVES_API
int sheaves_rcu_wait(sheaves_rcu_cookie cookie);

// Expedites all grace periods of the process until sheaves_rcu_expedite_end. Nests.
// Async-signal-safe.
SHEAVES_API void sheaves_rcu_expedite_begin(void);

// Ends one sheaves_rcu_expedite_begin, in any thread. 0; EINVAL without one.
SHEAVES_API int sheaves_rcu_expedite_end(void);

// Ends the startup phase, in which grace periods are expedited. The phase starts with the first
// grace period and lasts at least a second and at most ten. Async-signal-safe.
SHEAVES_API void sheaves_rcu_end_startup(void);

// Version of the loaded library, as MAJOR.MINOR.PATCH. The header's is SHEAVES_VERSION.
SHEAVES_API const char *sheaves_version(void);

// Prints statistics of the heap and of all caches to a file descriptor, as SHEAVES_FORMAT_TEXT or
// _JSON. Allocates nothing. 0; EINVAL for another format or a negative descriptor. Text that the
// descriptor does not accept is lost.
SHEAVES_API
int sheaves_print_statistics(int fd,
                             int format);

// Writes sums over the whole process to statistics, as much as the caller's structure has room
// for: pass sizeof *statistics as bytes. What this library does not know is 0. 0; EINVAL for NULL.
// Takes each cache's lock briefly.
//
// What the caller promises:
// statistics is NULL or valid for bytes bytes.
SHEAVES_API
int sheaves_get_statistics(struct sheaves_statistics *statistics,
                           size_t bytes);

// The engine that executes transactions: "rseq" or "portable".
SHEAVES_API const char *sheaves_engine(void);

// Creates a domain; 32 bytes in each slot. NULL and ENOMEM when memory is out.
SHEAVES_API SHEAVES_MUST_USE struct sheaves_srcu *sheaves_srcu_create(void);

// Destroys a domain. NULL is ignored.
//
// If callbacks of it are pending, it waits for them first, as sheaves_srcu_barrier does, and for
// those that they schedule. Where that would deadlock, inside a read section or a callback, the
// domain stays as it is, for ever: its callbacks still run. This is reported in one line, as the
// kernel does where srcu_barrier is missing before cleanup_srcu_struct.
//
// What the caller promises:
// No section of it is open, and it is not used any more, but by its callbacks.
SHEAVES_API
void sheaves_srcu_destroy(struct sheaves_srcu *domain);

// Begins a section, which sheaves_srcu_read_unlock ends, in any thread. It may sleep and be long.
// One transaction, no atomic instruction. Async-signal-safe. Never blocks, but in the child of a
// fork while another thread uses the domain for the first time there; sections that were open
// count as ended in the child. 0 for NULL.
//
// What the caller promises:
// The domain is NULL or was created.
SHEAVES_API
SHEAVES_MUST_USE
sheaves_srcu_section sheaves_srcu_read_lock(struct sheaves_srcu *domain);

// Ends a section. One that is ended a second time aborts the process with one line, in a later
// sheaves_srcu_synchronize at the latest, unless another section was open meanwhile.
//
// What the caller promises:
// The section is of this domain and was not ended before; or the domain is NULL.
SHEAVES_API
void sheaves_srcu_read_unlock(struct sheaves_srcu *domain,
                              sheaves_srcu_section section);

// Waits until all sections of the domain that began before this call have ended. Sleeps; inside a
// section of this domain it deadlocks. 0; EINVAL for NULL.
//
// What the caller promises:
// The domain is NULL or was created.
SHEAVES_API
int sheaves_srcu_synchronize(struct sheaves_srcu *domain);

// Schedules call(head) for when all sections of the domain that are open have ended, like the
// kernel's call_srcu.
//
// A short lock, which all domains share; no allocation. May be called inside a section, by any
// thread; not for signal handlers. Callbacks of a domain run in their order, in the thread of
// those of sheaves_call_rcu, and may do what those may; if no other event starts the work, it
// starts 20 ms later, also for what callbacks schedule. Sections of other domains delay none of
// them; those of sheaves_rcu_read_lock may. sheaves_srcu_barrier waits for them,
// sheaves_rcu_barrier does not. After fork() the child inherits them, as those of
// sheaves_call_rcu.
//
// 0; EINVAL for NULL and for a head that is not at a multiple of 8. A head that is deferred
// already is reported in one line and not deferred again.
//
// What the caller promises:
// The domain is NULL or was created, and is not destroyed before; head as for sheaves_call_rcu.
SHEAVES_API
int sheaves_srcu_call(struct sheaves_srcu *domain,
                      struct sheaves_head *head,
                      sheaves_call call);

// Returns when every callback that any thread scheduled for the domain before has run. Sleeps;
// inside a section of this domain it deadlocks, as sheaves_srcu_synchronize.
//
// 0; EINVAL for NULL; EDEADLK, with a line on standard error, inside a section of
// sheaves_rcu_read_lock or any deferred callback.
//
// What the caller promises:
// The domain is NULL or was created, and is not destroyed before this returns.
SHEAVES_API int sheaves_srcu_barrier(struct sheaves_srcu *domain);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SHEAVES_H */

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
