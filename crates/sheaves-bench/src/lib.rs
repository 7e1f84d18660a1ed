//! Workloads, contenders and measurement: how fast Sheaves is, beside everything else.
//!
//! ```text
//! sheaves-bench TABLE [--quick] [--threads N] [--json FILE] [--sizes 64,1024] [--contenders a,b]
//! ```
//!
//! `TABLE` may be a part of one: `batch`, `batch/shuffled` or `batch/shuffled/64`. With `--quick`
//! and no table the program shows the result of 2011 (below), before and after, in under a minute.
//!
//! # How it measures
//!
//! - All contenders of a workload are ready at the same time, in one process, and take turns sample
//!   by sample, in a new random order each round. A machine that slows down for a second slows
//!   all of them down.
//! - A sample is a batch of operations of at least 50 microseconds, timed as a whole; before the
//!   clock starts, the contender does a little of the same work to have its own memory back in the
//!   caches. Some rounds are run and forgotten first.
//! - Printed are the median, and as low and high the 10th and 90th percentile, in nanoseconds per
//!   operation. Ratios are taken round by round; then their median is printed.
//! - A bar is held against the ratio of medians, ours to the best peer of the same row.
//! - The process has a second thread from the start, because glibc leaves its locks out otherwise.
//!
//! # Tables
//!
//! | table | what | variants |
//! |---|---|---|
//! | `pair` | allocate, write a byte, free at once | |
//! | `batch` | allocate 10,000, write a byte each, free all | `inorder`, `reverse`, `shuffled` |
//! | `slabtest` | the six parts of the kernel's slab_test, step by step | `1` to `6` |
//! | `remote` | allocate here, free on another thread | `1to1`, `1to1-read`, `1toN`, `Nto1` |
//! | `replace` | replace a random one of 5,000 objects of 16 to 1016 bytes | `1t` to `Nt` threads |
//! | `percpu` | per-CPU memory in the pattern of network filters | see below |
//! | `counter` | add to one number; sum it up | `1t` to `Nt` threads; `sum` |
//! | `readers` | enter and leave read sections; read a pointer in them | see below |
//! | `synchronize` | wait for readers | see below |
//! | `map` | many threads at one hash map | see below |
//! | `dispose` | have an object freed once readers are gone | see below |
//! | `bulk` | the same in thousands, of four sizes | `1t`, `2t` |
//!
//! A row is called `TABLE/VARIANT/SIZE`: `pair/64`, `batch/shuffled/64`, `remote/1to1/64`,
//! `replace/2t`. Parts that are timed on their own have rows of their own: `batch-alloc/inorder/64`
//! and `batch-free/inorder/64`, `slabtest/1-alloc/64` and `slabtest/1-free/64`. The rows
//! `slabtest/5-printed` and `6-printed` are the averages as the original computes them, which
//! divides by more operations than were done; the others are per operation.
//!
//! # Contenders
//!
//! | name | what | compared with |
//! |---|---|---|
//! | `cache` | a named cache of Sheaves, inlined (`replace`: one per 16 bytes) | every peer |
//! | `sized` | Sheaves as `GlobalAlloc`: size on both sides, inlined | sized forms |
//! | `malloc` | Sheaves as two C functions; free finds the size itself | unsized forms |
//! | `locked` | the same slab, a lock and an array of objects for each CPU | |
//! | `tid` | the same slab, a linked list and a transaction number for each CPU | |
//! | `floor` | `remote` without an allocator: the queue alone; `dispose` see below | |
//! | `glibc` | the C library's malloc, checked to be just that | |
//!
//! `locked` is the "before" of the change that made Linux's allocator fast in 2011 by leaving
//! disabled interrupts and locks out of the common path, and `tid` is what it did instead.
//!
//! With the feature `peers`, which needs a C++ compiler and cmake:
//!
//! | name | what | sized form |
//! |---|---|---|
//! | `mimalloc` | version 3 | `mimalloc-sized`: `mi_free_size` |
//! | `jemalloc` | version 5.3 | `jemalloc-sized`: `mallocx`, `sdallocx` |
//! | `snmalloc` | version 0.7 | `snmalloc-sized`: size and alignment on both sides |
//! | `rpmalloc` | version 1.4, the newest that the registry has as source | none |
//! | `tcmalloc` | Google's | `tcmalloc-sized`: `operator new`, sized `operator delete` |
//!
//! tcmalloc runs in two child processes, with per-CPU and with per-thread caches; the better one
//! counts. Both have a row in the JSON file, as `tcmalloc@percpu` and `tcmalloc@perthread`.
//!
//! snmalloc's build turns to a debug build, thirty times slower, when the profile asks for debug
//! information: keep `debug = false` in the profile that measures.
//!
//! # Per-CPU memory
//!
//! `percpu` has rows named by their pattern, `PATTERN/CHUNK/FILTERS`, and the pattern may be asked
//! for in place of the table: `tc`, `tc/64k`, `tc/64k-zeroed-8/100000`.
//!
//! | pattern | a filter's objects | what is timed, each per object |
//! |---|---|---|
//! | `tc` | 16 B at 16, 16 B at 16, 20 B at 4 | adding 1,000,000 filters (`--quick`: 100,000) |
//! | `tc-packed` | 12 B, 12 B, 20 B, all at 4 | the same |
//! | `control` | 16 B at 4 | the same |
//! | `churn` | as `tc` | deleting a random tenth and adding as many, ten rounds |
//! | `concurrent` | 8, 16, 24 and 32 B at 8 | `1t` to `Nt` threads replace filters at random |
//! | `concurrent-pair` | the same | `1t` to `Nt` threads allocate, count once and free at once |
//!
//! A filter of `tc` is what made Linux's per-CPU allocator slow and led to its change of 2019:
//! every 64 bytes there remains a hole of 12 bytes that none of its objects fits into. `CHUNK` is
//! the part of one slot in a chunk, `32k`, `64k` or `256k`. In `64k-zeroed-8` each object is zeroed
//! in 8 slots, outside the lock; without this nothing is written, so that the number of slots makes
//! no difference. `tc` is measured with 1,000 filters and more, to show what grows with them.
//! `--sizes` takes numbers of filters. A full run takes half an hour, most of it `V50`.
//!
//! | contender | what |
//! |---|---|
//! | `V50`, `V52` | the algorithm before and after 2019, under the library's lock |
//! | `FIXED` | the library's own: `V52` without its defects, on the same memory and lock |
//! | `FIXED+caches` | `PerCpu`, as programs use it, on the slots and the engine of this machine |
//! | `FIXED+handles` | the same by handles, which know their size and refuse to be freed twice |
//! | `mutex-pool` | pools of powers of two with a mutex each, as librseq's are described |
//! | `padded-box` | `Box<[CachePadded<T>]>` for each object |
//!
//! Rows tell what was done for the first sample, which is the same on every machine: chunks tested,
//! words read and so on. Memory in use is compared with the sum of the objects and the holes that
//! alignment forces: where objects lie in the order of the requests (`V50`, `V52`, `FIXED`) there
//! are some between sizes, where those of one size lie side by side there are none. It does not
//! include metadata, which exists once and not in each slot. Contenders that a row leaves out are
//! named, with the reason. The bars of slot caches are held against `FIXED+caches`.
//!
//! `counter` has the contenders `counter`, the library's; `atomic`, one number; `sharded`, atomic
//! numbers of which each thread takes one; and `thread-local`, a number for each thread and a
//! registry. In `counter/sum/64` the library runs in a child process on 64 virtual slots. One
//! addition is held against 1.5 ns; `atomic` with one thread tells what the machine makes of an
//! atomic one, and `thread-local` what of a load, an addition and a store.
//!
//! # Readers
//!
//! `readers` has the rows `enter-leave/Nt` and `load-K/Nt`, for `1t` to `Nt` threads; `--quick` has
//! K = 1 and 5. In `load-K` each section reads a pointer and the value behind K dependent loads,
//! while one more thread replaces what is read, all the time; `load-K-replace/Nt` is the time from
//! one replacement to the next. How often an updater replaces depends on whether it waits for
//! readers, so these two rows belong together. What was read is checked.
//!
//! | contender | section | what is replaced |
//! |---|---|---|
//! | `rcu` | guard of the default domain | freed after a wait |
//! | `srcu` | guard of a domain of its own | freed after a wait |
//! | `increments` | two transactions on the slot: the floor for `srcu` | no such row |
//! | `crossbeam-epoch` | pins the thread | deferred |
//! | `seize` | enters the collector | retired |
//! | `haphazard` | a hazard pointer, kept: protect and give up | retired |
//! | `arc-swap` | `load` | freed by its last user |
//! | `rwlock`, `parking_lot` | read lock | freed at once |
//! | `liburcu-memb`, `-mb`, `-bp`, `-qsbr` | inlined from its headers, `-O2` | freed after a wait |
//!
//! A reader of `qsbr` announces that it is in no section after every 1024 of them, as in liburcu's
//! own tests, and before it sleeps. liburcu needs the feature `peers` and Debian's `liburcu-dev`.
//!
//! # Waiting for readers
//!
//! | row of `synchronize` | who waits |
//! |---|---|
//! | `alone` | one thread, 1,000 times in a row, while no thread reads |
//! | `10x1000` | ten threads, 1,000 times each: allocate an object, wait, free it |
//! | `10x1000+flood` | the same, while `callback`'s thread runs 10,000 callbacks in a circle |
//! | `10x1000+call_rcu` | the same, but each contender's own `call_rcu` runs the callbacks |
//! | `10x100000` | ten threads, 100,000 times each |
//! | `waiters/N` | 1, 64 and 500 threads, as above, 1,000, 100 and 100 times in a row |
//! | `registered/N` | one thread, while N idle ones are registered; `--threads` is the highest N |
//!
//! Each is a number of rows, which the text has as columns: the mean of all calls, and with
//! `-p50`, `-p99`, `-max`, `-total`, `-worst`, `-spread`, `-range`, `-periods` and `-membarriers`
//! behind the first part of the name what these say. Threads that wait have registered as readers.
//! All contenders are measured after the start of the program, for which Sheaves expedites.
//!
//! | contender | what |
//! |---|---|
//! | `direct` | Sheaves: a generation of waiters is woken by one call |
//! | `callback` | the same grace periods; a thread wakes waiters by callbacks, in order |
//! | `prototype` | a list that is released as a whole, **too early** for some: for its cost alone |
//! | `liburcu-...` | as above |
//!
//! `callback` in `+flood` is the "before" of the change that had Linux wake waiters directly in
//! 2024, and `direct` what it did instead. The thread of `callback` takes what is queued whenever a
//! grace period is over, and a waiter's callback has its place behind those that were queued before
//! it. In `+call_rcu` the reclaimer of Sheaves and the thread of liburcu, which sleeps for 10 ms
//! between two batches, do the same beside their own waiters. In `10x100000` the range says how far
//! the threads end apart, and the longest wait has a bar.
//!
//! # Maps
//!
//! | row of `map` | entries | operations |
//! |---|---|---|
//! | `read-99/Nt/ENTRIES` | all keys | 99 % lookups, 1 % replace a value |
//! | `mixed-90/Nt/ENTRIES` | half of the keys | 90 % lookups, 5 % insert, 5 % remove |
//! | `write-50/Nt/ENTRIES` | half of the keys | 50 % lookups, 25 % insert, 25 % remove |
//! | `grow/Nt/ENTRIES` | from none to all keys | each thread inserts its share, in random order |
//!
//! Keys and values are numbers of 64 bits; each key is as likely as any other. Maps have their
//! capacity from the start, but in `grow`. Lookups check what they find. `--sizes` takes numbers of
//! entries. Contenders are `rcu-map`, the library's, `papaya` and `dashmap`, all with foldhash.
//! They enter and leave a section for each operation; `rcu-map-held` and `papaya-held` hold one
//! guard for 64. The library's map allocates from its own heap, the others from glibc's.
//!
//! # Deferred frees
//!
//! `dispose` has the rows `1t`, `2t` and `4t`, in which 1, 2 and 4 threads allocate an object of 64
//! bytes, write to it and defer its free, and `request`, in which one thread has 1 to 2
//! microseconds of work for each object. Where there are more threads than processors, the text
//! says so; each thread's own time counts, also while it does not run. A sample is 50 ms of that,
//! so that grace periods happen all the time and memory comes back. It does not wait for what is
//! deferred at its end: `dispose-outstanding/...` has the bytes of that, `dispose-settled/...` the
//! time until all is free, and `dispose-periods/...` the grace periods of the sample.
//!
//! | contender | how the object is freed |
//! |---|---|
//! | `sheaves` | `Cache::free_rcu`: one push into the slot's rcu sheaf |
//! | `floor` | at once, by the same allocator |
//! | `without` | there is none (`request` only) |
//! | `before` | by a call in one list behind a mutex; its thread is woken for each |
//! | `after` | by `call_rcu` of Sheaves: a call in the slot's buffer; wakes its thread for 2,000 |
//! | `crossbeam-epoch` | `defer_destroy`; with mimalloc `defer_unchecked` |
//! | `seize` | `defer_retire` |
//! | `haphazard` | `retire_ptr`; it allocates a record for each, always with glibc |
//! | `liburcu-call_rcu`, `liburcu-defer_rcu` | flavour `memb` |
//!
//! `before` is how OSv had it until 2014, and `after` what it did instead; both free to a cache of
//! Sheaves. Peers are there with glibc's malloc and, as `...+mimalloc`, with that. A contender that
//! frees in callbacks counts what it frees, about half a nanosecond each.
//!
//! `bulk` is the kernel's test of `kfree_rcu`: 20,000 loops of 1,000 objects of 32, 48, 80 and 112
//! bytes in turn, each deferred at once and not touched.
//!
//! | contender | how the objects are freed |
//! |---|---|
//! | `sheaves` | as above |
//! | `bulk` | noted in pages of 510 pointers, freed a page at a time |
//! | `per-object` | linked by 16 bytes within them, freed one by one |
//! | `per-object+glibc` | the same with glibc's malloc |
//!
//! All but the first collect for 20 ms on each CPU, then a thread of that CPU waits for readers and
//! frees, as Linux did in 2020. Besides the rows that `dispose` has there are `bulk-footprint/...`,
//! deferred bytes, and `bulk-resident/...`, growth of resident memory, both looked at in the first
//! loop and after each quarter but the last, each look weighing as much as all before. The latter
//! is taken in a run of its own that begins with free memory given back.
//!
//! # The JSON file
//!
//! ```text
//! {schema, table, machine: {cpu, cpus, kernel, glibc, thp, commit},
//!  rows: [{workload, contender, unit, samples, median, low, high, work}],
//!  ratios: [{workload, of, to, median, low, high}],
//!  bars: [{workload, contender, versus, ratio, at_most, verdict}],
//!  left_out: [{contender, reason, workloads}]}
//! ```
//!
//! `unit` is `ns/op` except in `synchronize`, `dispose` and `bulk`, whose other rows have `ns`,
//! `%`, `bytes`, `grace periods` and `membarriers`; who does not count the last two has no such
//! rows.
//! `work` and `left_out` are there where there is something to tell. `work` has `chunks_tested`,
//! `words_read`, `block_refreshes` and `blocks_visited`, all per allocation, `relegations`,
//! `chunks_live`, `populated_pages`, `metadata_bytes`, `unusable_bytes`, `bytes_in_use` and
//! `bytes_ideal`, those that a contender counts. `versus` is another contender, or what a figure is
//! held against: `1 chunk tested`, `ideal memory` or `1 ns`; `ratio` is then the figure itself.

extern crate alloc;

mod child;
pub mod cli;
mod contender;
mod failure;
mod measure;
mod report;
mod stats;
mod workload;
