//! Tests of `src/ask/apart.rs`.

use core::time::Duration;
use std::thread::{park, sleep};
use std::time::Instant;

use super::{AT_ONCE, for_each, within};

/// Numbers that no other test uses.
const FIRST: u32 = 1 << 30;

#[test]
fn what_takes_too_long_is_left() {
    assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
    let begin = Instant::now();
    assert_eq!(
        within(Duration::from_millis(20), || loop {
            park();
        }),
        None::<()>
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
}

/// More processes than have a turn at once never answer; all others do.
#[test]
fn silent_processes_do_not_keep_others_from_answering() {
    let silent = FIRST + 2 * AT_ONCE as u32;
    let pids: Vec<_> = (FIRST..silent + 20).collect();
    let act = move |pid: u32| {
        if pid < silent {
            loop {
                park();
            }
        }
        pid
    };
    let (mut answered, mut late) = (Vec::new(), Vec::new());
    let (each, all) = (Duration::from_millis(50), Duration::from_secs(60));
    for_each(pids, each, all, act, |pid, found| match found {
        Some(number) => answered.push((pid, number)),
        None => late.push(pid),
    });
    answered.sort_unstable();
    let expected: Vec<_> = (silent..silent + 20).map(|pid| (pid, pid)).collect();
    assert_eq!(answered, expected);
    assert_eq!(late, (FIRST..silent).collect::<Vec<_>>());
    // One whose thread has not ended is not asked again.
    let begin = Instant::now();
    for_each(
        vec![FIRST],
        Duration::from_secs(60),
        all,
        |_| (),
        |_, found| assert!(found.is_none()),
    );
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn there_is_an_end_for_all_together() {
    let (mut count, begin) = (0, Instant::now());
    let pids: Vec<_> = (FIRST + 1000..FIRST + 2000).collect();
    let act = |_| sleep(Duration::from_millis(20));
    for_each(pids, Duration::from_secs(1), Duration::from_millis(100), act, |_, _| count += 1);
    assert_eq!(count, 1000);
    assert!(begin.elapsed() < Duration::from_secs(20));
}
