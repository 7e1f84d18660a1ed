//! Tests of private items of `defer/work/follow`.

use super::*;

/// The share of the time that goes if a turn is spent whenever that is affordable, in 1,024ths.
fn spent_of_1024(begin_ns: u64, end_ns: u64, paid_ns: &mut u64) -> u64 {
    let (mut now_ns, mut spent_ns) = (begin_ns, 0);
    while now_ns < end_ns {
        if *paid_ns <= now_ns {
            *paid_ns = paid_after(*paid_ns, now_ns, TURN_NS);
            spent_ns += TURN_NS;
        }
        now_ns += TURN_NS;
    }
    spent_ns * 1024 / (end_ns - begin_ns)
}

#[test]
fn a_stretch_is_free_and_then_a_sixteenth() {
    let start_ns = 1_000 * BURST_NS;
    let mut paid_ns = 0;
    assert_eq!(spent_of_1024(start_ns, start_ns + BURST_NS, &mut paid_ns), 1024);
    let later_ns = start_ns + 2 * BURST_NS;
    let share = spent_of_1024(later_ns, later_ns + 100 * BURST_NS, &mut paid_ns);
    assert!((60..=70).contains(&share), "{share} of 1024");
    // A long pause pays for another stretch, and for no more than that.
    let much_later_ns = start_ns + 1_000 * BURST_NS;
    let share = spent_of_1024(much_later_ns, much_later_ns + BURST_NS, &mut paid_ns);
    assert_eq!(share, 1024);
    let after_ns = much_later_ns + 2 * BURST_NS;
    assert!(spent_of_1024(after_ns, after_ns + 100 * BURST_NS, &mut paid_ns) <= 70);
}
