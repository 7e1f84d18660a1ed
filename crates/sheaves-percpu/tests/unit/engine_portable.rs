//! Tests of private items of `engine/portable`.

extern crate std;
use super::*;

use core::time::Duration;
use std::sync::{Arc, mpsc};

use sheaves_sys::topology::{Affinity, current_cpu};

/// Binds the calling thread to one CPU and gives it a real-time priority. False where that is
/// not permitted.
fn become_real_time(processor: usize, priority: i32) -> bool {
    let only = Affinity::only(processor).unwrap();
    // SAFETY: integers only. musl has more of them than the kernel, which reads the first one.
    let mut parameters: libc::sched_param = unsafe { core::mem::zeroed() };
    parameters.sched_priority = priority;
    // SAFETY: the structure is valid for the call.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    status == 0 && only.bind()
}

/// A thread has a word checked out and cannot run while the thread that waits for it runs.
#[test]
fn holder_of_lower_priority_gets_to_run() {
    let value = Cursor::of_word(64);
    const DEADLINE: Duration = Duration::from_secs(5);
    let word = Arc::new(AtomicUsize::new(BUSY));
    let processor = usize::try_from(current_cpu()).unwrap();
    let (ready, is_ready) = mpsc::channel();
    let (taken, is_taken) = mpsc::channel();
    let (begin, may_begin) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    let holder = {
        let (word, ready) = (word.clone(), ready.clone());
        move || {
            let _ = ready.send(become_real_time(processor, 1));
            if may_go.recv().is_ok() {
                check_in(&word, value);
            }
        }
    };
    let waiter = {
        let word = word.clone();
        move || {
            let _ = ready.send(become_real_time(processor, 2));
            if may_begin.recv().is_ok() {
                // The holder could run now, but this thread continues.
                let _ = go.send(());
                let _ = taken.send(take(&word, Cursor::VACANT));
            }
        }
    };
    let threads = [std::thread::spawn(holder), std::thread::spawn(waiter)];
    if [(); 2].map(|()| is_ready.recv_timeout(DEADLINE).unwrap()) == [true; 2] {
        begin.send(()).unwrap();
        let received = is_taken.recv_timeout(DEADLINE);
        // If the waiter never let the holder run, this ends it.
        check_in(&word, value);
        assert_eq!(received, Ok(value), "the waiter did not let the holder run");
    } else {
        drop(begin);
        std::println!("skipped: real-time priorities are not permitted here");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// 1000 threads with stacks of one size, from 16 KiB to 64 MiB.
#[test]
fn threads_have_different_tags() {
    for shift in 14..27 {
        let base = 0x7f12_3456_76c0;
        let tags: std::collections::BTreeSet<_> =
            (0..1000).map(|number| tag_of(base + (number << shift))).collect();
        assert_eq!(tags.len(), 1000, "stacks of {} KiB", 1 << (shift - 10));
        assert!(tags.iter().all(|tag| tag & BUSY == 0 && tag & !TAGS == 0));
    }
}
