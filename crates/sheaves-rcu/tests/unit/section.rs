//! Tests of private items of `reader/section`.

extern crate std;

use core::time::Duration;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use super::*;
use crate::Cookie;
use crate::protocol::reader::STEP;

/// Without being woken, the leader sleeps for a minute.
#[test]
fn the_end_of_a_section_wakes_the_leader() {
    for sections_before in [0, 1000] {
        let (send, entered) = channel();
        let thread = thread::spawn(move || {
            for _ in 0..sections_before {
                drop(crate::read());
            }
            let _outer = crate::read();
            let _inner = crate::read();
            send.send(tls::reader().addr()).unwrap();
            thread::sleep(Duration::from_millis(100));
        });
        let reader = reader_at(core::ptr::with_exposed_provenance(entered.recv().unwrap()));
        // The grace period advances the sequence, and then waits for the section.
        let cookie = Cookie::start_poll_expedited();
        let begin = Instant::now();
        while !reader.has_passed(GLOBAL.0.load(Ordering::Relaxed).wrapping_add(STEP)) {
            sleep_until_ended(reader, 60_000_000_000);
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread.join().unwrap();
        cookie.wait().unwrap();
    }
}
