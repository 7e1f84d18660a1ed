//! Tests of `src/contenders/allocators/history.rs`.

use crate::contenders::allocators::history::*;
use crate::contenders::allocators::library::make_cache;
use crate::contenders::allocators::tests::checks::{churn, exchange};
use sheaves_history::lock_per_cpu::Locked;
#[cfg(target_arch = "x86_64")]
use sheaves_history::tid::Tid;

fn cache(size: usize) -> sheaves::raw::Cache {
    make_cache("history", size).unwrap()
}

#[test]
fn no_object_is_handed_out_twice() {
    // One slot for all, so that the threads really meet.
    churn(&Locked::with_slots(cache(64), 1), 64);
    churn(&locked(64).unwrap(), 64);
}

#[test]
fn objects_may_be_freed_by_another_thread() {
    exchange(&Locked::with_slots(cache(32), 1), 32);
    exchange(&locked(32).unwrap(), 32);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn transaction_numbers_keep_objects_apart() {
    churn(&Tid::with_slots(cache(64), 1).unwrap(), 64);
    churn(&tid(64).unwrap(), 64);
    exchange(&Tid::with_slots(cache(32), 1).unwrap(), 32);
    exchange(&tid(32).unwrap(), 32);
}
