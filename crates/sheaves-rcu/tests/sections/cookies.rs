//! Cookies as numbers.

use core::time::Duration;
use std::process::{Command, Stdio};
use std::time::Instant;

use sheaves_rcu::Cookie;

use crate::{Reader, alone};

/// Operations on a cookie from the future, each in its own process.
const ASK: &str = "SHEAVES_TEST_ASK";

#[test]
fn a_cookie_of_the_future_has_not_passed() {
    let future = Cookie::from_bits(u64::MAX);
    assert!(!future.has_passed() && !future.poll());
    assert!(Cookie::from_bits(0).has_passed());
}

/// Waiting for a number that no cookie has yet would never end: the process aborts with a report.
#[test]
fn a_cookie_of_the_future_is_not_waited_for() {
    let future = Cookie::from_bits(u64::MAX);
    match std::env::var(ASK).as_deref() {
        Ok("start") => return future.start(),
        Ok("start_expedited") => return future.start_expedited(),
        Ok("wait") => return future.wait().unwrap(),
        Ok("wait_expedited") => return future.wait_expedited().unwrap(),
        Ok("finished") => return drop(future.finished()),
        _ => {}
    }
    for ask in ["start", "start_expedited", "wait", "wait_expedited", "finished"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "cookies::a_cookie_of_the_future_is_not_waited_for"])
            .env(ASK, ask)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while child.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let is_told = text.contains("a cookie from the future");
        assert!(!output.status.success() && is_told, "{ask}: {}, {text}", output.status);
    }
}

/// An updater that wrongly takes its cookie before it unlinks the item frees the item under a
/// reader: the grace period of that cookie may have begun before the reader. An updater that takes
/// it afterwards does not.
#[test]
fn a_cookie_from_before_the_unlink_is_too_early() {
    let _alone = alone();
    let before = Reader::start();
    let early = Cookie::start_poll_expedited();
    // The grace period has begun: it waits for the first reader, and for none that comes later.
    assert!(!early.poll());
    // This reader may find the item, which is only unlinked below.
    let finds = Reader::start();
    let right = Cookie::start_poll_expedited();
    drop(before);
    let begin = Instant::now();
    while !early.poll() {
        assert!(begin.elapsed() < Duration::from_secs(20), "the early cookie does not pass");
    }
    assert!((0..1000).all(|_| !right.poll()), "a grace period has ended under a reader");
    drop(finds);
    right.wait().unwrap();
}
