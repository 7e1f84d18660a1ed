//! History: published algorithms, reproduced for two purposes. Sheaves is compared with them, and
//! tests show that they find what was wrong with some of them.
//!
//! Nothing here is for programs, and no library crate uses it: `sheaves-bench`, `sheaves-torture`
//! and tests do. Each file begins with its source, the published results, and which part is
//! reproduced.
//!
//! | module | source | wrong on purpose |
//! |---|---|---|
//! | [`lock_per_cpu`] | Linux up to 2.6.38: a slab's fast path with interrupts disabled | |
//! | [`tid`] | Linux 2.6.39, 2011: SLUB's fast path with a transaction number | |
//! | [`percpu`] | Linux 5.0 and 5.2, 2019: `mm/percpu.c` before and after its scan hints | |
//! | [`mutex_pool`] | librseq: per-CPU memory in pools with a mutex each | |
//! | [`callback`] | Linux up to 6.9: `synchronize_rcu` that waits for a callback | |
//! | [`prototype`] | Linux, 2023: the first form of the direct wake-up in `synchronize_rcu` | yes |
//! | [`srcu`] | Linux, 2006: a sleepable RCU domain that drains one of its two indexes | yes |
//! | [`global_list`] | OSv until 2014: `rcu_defer` on one list for all | |
//! | [`kfree_rcu`] | Linux, 2019 and 2020: `kfree_rcu` object by object, and in pages | |

pub mod callback;
pub mod cpu;
pub mod global_list;
pub mod kfree_rcu;
pub mod lock_per_cpu;
pub mod mutex_pool;
pub mod percpu;
pub mod prototype;
mod pthread;
pub mod srcu;
#[cfg(target_arch = "x86_64")]
pub mod tid;
