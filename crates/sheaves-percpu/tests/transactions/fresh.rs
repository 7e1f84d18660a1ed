//! Behaviour before a slot has a block: in a process, and in a thread, that has done nothing yet.

use std::env;

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, EngineMode, Word, current_slot, facts, mode, push_slow};

use crate::fast::{pop, push};
use crate::numbers::{cmp_store, drain, is_sentinel, load, observe, pop_slow, vacant};
use crate::one_slot::{Bound, alone, processors};
use crate::own_process;
use crate::seccomp;
use crate::sheaves::Sheaf;

const WORD: Word = Word::new(1);
/// Set in the process that [`transactions_refuse_before_the_first_attach`] starts.
const FRESH: &str = "SHEAVES_TEST_FRESH";

/// Every transaction fails without writing: the block is in read-only memory.
fn everything_refuses() {
    let sheaf = Sheaf::make();
    assert!(is_sentinel(pop(WORD)));
    assert!(is_sentinel(pop_slow(WORD)));
    // SAFETY: objects are plain numbers here.
    assert!(!unsafe { push(WORD, 2) });
    // SAFETY: as above.
    assert!(!unsafe { push_slow(WORD, 2) });
    for expected in [vacant(), 0, sheaf] {
        // SAFETY: not the bootstrap cursor; this test owns the sheaf.
        assert!(!unsafe { cmp_store(WORD, expected, sheaf) });
    }
}

/// Runs in a separate process: in the shared one, other tests have attached before.
#[test]
fn fresh_process() {
    if env::var_os(FRESH).is_none() {
        return;
    }
    let _bound = Bound::to(processors()[0]);
    assert_ne!(mode(), EngineMode::NotStarted);
    assert_eq!(load(WORD), Cursor::BOOTSTRAP.bits());
    everything_refuses();
    observe(&[WORD], &mut |_, value| panic!("a slot without a block has {value:#x}"));
    assert!(drain(&[WORD], &mut |_, value| panic!("drained {value:#x}")));
    everything_refuses();
    assert_eq!(load(WORD), Cursor::BOOTSTRAP.bits());
    assert!(attach());
    assert_eq!(load(WORD), vacant());
    // SAFETY: VACANT is not the bootstrap cursor.
    assert!(unsafe { cmp_store(WORD, vacant(), Sheaf::make()) });
    // SAFETY: objects are plain numbers here.
    assert!(unsafe { push_slow(WORD, 2) });
    assert_eq!(pop_slow(WORD), 2);
}

#[test]
fn transactions_refuse_before_the_first_attach() {
    own_process::pass("fresh::fresh_process", &[(FRESH, "1")]);
}

/// A thread that starts under a filter which refuses rseq has no slot. It must not run
/// transactions, because the kernel would not abort its critical sections.
///
/// Only where threads register themselves: glibc ends the process when rseq registration fails for
/// a thread after it succeeded for the first one.
#[test]
fn thread_that_the_kernel_refuses_has_no_slot() {
    let _alone = alone();
    assert!(attach());
    let facts = facts();
    if facts.mode != EngineMode::Rseq || sheaves_sys::tls::libc_rseq_offset().is_some() {
        return;
    }
    let program = seccomp::program(&[libc::SYS_rseq], libc::EPERM);
    // The filter applies to the thread that installs it and to the threads that it starts.
    let filtered = std::thread::spawn(move || {
        if let Err(error) = seccomp::install(&program) {
            println!("skipped: filters are not permitted here: {error}");
            return;
        }
        let refused = std::thread::spawn(|| {
            assert!(current_slot() < 0, "slot {}", current_slot());
            assert!(!attach());
            everything_refuses();
        });
        refused.join().unwrap();
    });
    filtered.join().unwrap();
}
