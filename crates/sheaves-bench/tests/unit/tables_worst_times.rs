//! Tests of `src/tables/worst/times.rs`.

use crate::tables::worst::times::{Clock, Times};

#[test]
fn a_percentile_is_known_of_enough_calls_only() {
    let mut times = Times::new(Clock::Wall);
    assert!(times.figures().iter().all(|figure| figure.is_nan()));
    let mut known = Vec::new();
    for count in 1..=10_000 {
        times.time(|| core::hint::black_box(count));
        if [1, 2, 99, 100, 9_999, 10_000].contains(&count) {
            let [longest, rest @ ..] = times.figures();
            assert!(longest > 0.0);
            known.push(rest.map(|figure| u8::from(!figure.is_nan())));
        }
    }
    let expected = [[0, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 1], [0, 1, 1], [1, 1, 1]];
    assert_eq!(known, expected);
}

#[test]
fn a_sleep_takes_time_on_the_wall_alone() {
    let longest = |clock| {
        let mut times = Times::new(clock);
        times.time(|| std::thread::sleep(core::time::Duration::from_millis(50)));
        times.figures()[0]
    };
    assert!(longest(Clock::Wall) >= 49e6);
    assert!(longest(Clock::Cpu) < 49e6);
}
