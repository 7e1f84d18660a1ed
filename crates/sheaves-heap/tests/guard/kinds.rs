//! Each kind of error ends the process, with a report that says what, where, and the stacks.

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use sheaves_heap::{aligned_alloc, free, free_rcu, guard, malloc, realloc, usable_size};

use crate::{cases, guard_all, guarded, guarded_at, guarded_by, passed, read, write};

/// The process ends by a signal, with a report of these lines, in this order.
#[track_caller]
fn dies(output: &Output, signal: i32, lines: &[&str]) {
    assert_eq!(output.status.signal(), Some(signal), "{output:#?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut rest = &*errors;
    for wanted in lines {
        let found = rest.split_once(wanted);
        rest = found.unwrap_or_else(|| panic!("{wanted:?} is not there in:\n{errors}")).1;
    }
    assert!(errors.lines().all(|line| line.starts_with("sheaves: guard: ")), "{errors}");
}

cases! {
    overflow_read [], |output| dies(output, libc::SIGSEGV, &[
        "guard: buffer overflow: read of 0x", "past the end of a block of 160 bytes at 0x",
        "#0 0x", "allocated", "#0 0x",
    ]) => { guard_all(); read(guarded_at(160, true).wrapping_add(160)); };

    overflow_write [], |output| dies(output, libc::SIGSEGV, &[
        "guard: buffer overflow: write to 0x",
        "32 bytes past the end of a block of 1024 bytes at 0x", "(malloc-1024)",
    ]) => { guard_all(); write(guarded_at(1024, true).wrapping_add(1024 + 32)); };

    underflow [], |output| dies(output, libc::SIGSEGV, &[
        "guard: buffer underflow: read of 0x", "1 bytes before the start of a block of 48 bytes",
    ]) => { guard_all(); read(guarded_at(48, false).wrapping_sub(1)); };

    use_after_free [], |output| dies(output, libc::SIGSEGV, &[
        "guard: use after free: write to 0x", "at byte 7 of a block of 100 bytes",
        "#0 0x", "allocated", "#0 0x", "freed", "#0 0x",
    ]) => {
        guard_all();
        let block = guarded(100);
        // SAFETY: from this heap.
        unsafe { free(block) };
        write(block.wrapping_add(7));
    };

    double_free [], |output| dies(output, libc::SIGABRT, &[
        "guard: double free: 0x", "the start of a block of 100 bytes", "allocated", "freed",
    ]) => {
        guard_all();
        let block = guarded(100);
        // SAFETY: from this heap; the second time is the error that is tested.
        unsafe { free(block) };
        // SAFETY: as above.
        unsafe { free(block) };
    };

    interior_free [], |output| dies(output, libc::SIGABRT, &[
        "guard: free of an address that is not the start of a block: 0x",
        "at byte 16 of a block of 100 bytes", "allocated",
    ]) => {
        guard_all();
        // SAFETY: the error that is tested.
        unsafe { free(guarded(100).wrapping_add(16)) };
    };

    realloc_of_freed [], |output| dies(output, libc::SIGABRT, &["guard: double free: 0x"]) => {
        guard_all();
        let block = guarded(100);
        // SAFETY: from this heap.
        unsafe { free(block) };
        // SAFETY: the error that is tested.
        let _ = unsafe { realloc(block, 200) };
    };

    /// Less than the distance of two alignments: the page does not notice.
    a_byte_past_an_odd_size [], |output| dies(output, libc::SIGABRT, &[
        "guard: writes outside of the block, found when it is freed: 0x",
        "a block of 100 bytes", "allocated", "freed",
    ]) => {
        guard_all();
        let block = guarded_at(100, true);
        write(block.wrapping_add(100));
        // SAFETY: from this heap.
        unsafe { free(block) };
    };

    free_of_deferred [], |output| dies(output, libc::SIGABRT, &[
        "guard: free of a block that waits for a grace period: 0x", "allocated", "deferred",
    ]) => {
        guard_all();
        let _reader = sheaves_rcu::read();
        let block = guarded(100);
        // SAFETY: from this heap.
        unsafe { free_rcu(block) };
        // SAFETY: the error that is tested.
        unsafe { free(block) };
    };

    correct_programs_see_no_difference [], |output| assert_eq!(passed(output), "") => {
        guard_all();
        let block = guarded(100);
        // SAFETY: a block of this heap, here and below.
        assert_eq!(unsafe { usable_size(block) }, 100);
        for place in 0..100 {
            write(block.wrapping_add(place));
        }
        // SAFETY: as above.
        let larger = unsafe { realloc(block, 3000) };
        assert!((0..100).all(|place| read(larger.wrapping_add(place)) == 1));
        // SAFETY: as above.
        unsafe { free(larger) };
        for align in [32, 64, 512, 4096] {
            let block = guarded_by(|| aligned_alloc(align, 700));
            assert!(block.addr().is_multiple_of(align));
            (0..700).for_each(|place| write(block.wrapping_add(place)));
            // SAFETY: as above.
            unsafe { free(block) };
        }
        let zeroed = guarded_by(|| sheaves_heap::calloc(10, 33));
        assert!((0..330).all(|place| read(zeroed.wrapping_add(place)) == 0));
        // SAFETY: as above.
        unsafe { free(zeroed) };
        guard::off();
        for _ in 0..100 {
            let block = malloc(30_000);
            assert!(!sheaves_slab::internal::trap::contains(block.addr()));
            // SAFETY: as above.
            unsafe { free(block) };
        }
    };

    bad_options [("SHEAVES_GUARD", "16")], |output| assert_eq!(
        passed(output),
        "sheaves: SHEAVES_GUARD=16 is ignored: expected 0, or 1/N with N up to 1048576\n",
    ) => {
        // SAFETY: from this heap.
        unsafe { free(malloc(10)) };
        assert_eq!(guard::one_in(), 0);
    };
}
