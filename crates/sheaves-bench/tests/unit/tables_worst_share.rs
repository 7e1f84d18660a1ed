//! Tests of `src/tables/worst/share.rs`.

use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::contenders::allocators::glibc::Glibc;

#[test]
fn what_another_thread_uses_is_seen() {
    let share = Share { bytes: 1 << 20, time: Duration::from_millis(300) };
    let is_over = AtomicBool::new(false);
    let percent = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        });
        let percent = share.sampler(Glibc).unwrap().sample().unwrap();
        is_over.store(true, Ordering::Relaxed);
        percent
    });
    // Beside other load it has a part of a CPU only.
    assert!(percent.len() == 1 && percent[0] > 5.0, "{percent:?}");
}
