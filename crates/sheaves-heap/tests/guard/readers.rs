//! Late readers of deferred blocks: the report names the three stacks and the section.

use core::ptr::NonNull;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use sheaves_heap::{free_rcu, guard, profile};
use sheaves_slab::raw::{Cache, Options};

use crate::{cases, guard_all, guarded, passed, read};

#[track_caller]
fn dies(output: &Output, lines: &[&str]) {
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:#?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut rest = &*errors;
    for wanted in lines {
        let found = rest.split_once(wanted);
        rest = found.unwrap_or_else(|| panic!("{wanted:?} is not there in:\n{errors}")).1;
    }
}

/// Defers a block and waits until its grace period is over.
#[inline(never)]
fn retire(block: *mut u8) {
    // SAFETY: from this heap; the late reader is the error that is tested.
    unsafe { free_rcu(block) };
    sheaves_rcu::defer::barrier().unwrap();
}

cases! {
    outside_of_a_section [], |output| dies(output, &[
        "guard: use after the grace period: read of 0x", "at byte 8 of a block of 100 bytes",
        "#0 0x", "guard: the thread is in no RCU read section",
        "guard: allocated", "#0 0x", "guard: deferred", "#0 0x",
        "guard: its grace period was over",
    ]) => {
        guard_all();
        let block = guarded(100);
        retire(block);
        read(block.wrapping_add(8));
    };

    in_a_later_section [], |output| dies(output, &[
        "guard: use after the grace period: read of 0x", "#0 0x",
        "guard: the thread is in an RCU read section that began ",
        "ms ago, after the block was deferred",
        "guard: allocated", "#0 0x", "guard: deferred", "#0 0x",
    ]) => {
        guard_all();
        let block = guarded(100);
        retire(block);
        let _section = sheaves_rcu::read();
        read(block);
    };

    /// Such an object is deferred by the fast path, which does not know its caller.
    object_of_a_cache [], |output| dies(output, &[
        "guard: use after the grace period: read of 0x", "(sessions)",
        "guard: allocated", "#0 0x", "guard: deferred", "the caller is not known",
    ]) => {
        guard_all();
        let layout = core::alloc::Layout::new::<[u64; 20]>();
        let cache = Cache::new("sessions", layout, Options::default()).unwrap();
        let object = guarded_by_cache(&cache);
        // SAFETY: from this cache; the late reader is the error that is tested.
        unsafe { cache.free_rcu(object) };
        sheaves_rcu::defer::barrier().unwrap();
        read(object.as_ptr());
    };

    /// Readers that end in time are not disturbed.
    readers_in_time [], |output| assert_eq!(passed(output), "") => {
        guard_all();
        for _ in 0..100 {
            let section = sheaves_rcu::read();
            let block = guarded(5000);
            // SAFETY: from this heap, and in use by this section only.
            unsafe { free_rcu(block) };
            let _ = sheaves_rcu::Cookie::start_poll_expedited();
            (0..5000).for_each(|place| _ = read(block.wrapping_add(place)));
            drop(section);
            sheaves_rcu::defer::barrier().unwrap();
        }
        // What is in the pool at the end is free.
        guard::off();
        profile::stop();
        let _none = guarded_by_nothing();
    };
}

fn guarded_by_cache(cache: &Cache) -> NonNull<u8> {
    let objects: Vec<_> = (0..1000).map(|_| cache.alloc().unwrap()).collect();
    let is_guarded =
        |object: &&NonNull<u8>| sheaves_slab::internal::trap::contains(object.addr().get());
    *objects.iter().find(is_guarded).expect("one in seven")
}

fn guarded_by_nothing() -> usize {
    (0..1000)
        .filter(|_| sheaves_slab::internal::trap::contains(sheaves_heap::malloc(64).addr()))
        .count()
}
