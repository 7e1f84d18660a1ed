//! Tests of `src/harness/measure.rs`.

#[path = "harness_random.rs"]
mod random;

use super::*;
use alloc::rc::Rc;
use core::cell::RefCell;

const EFFORT: Effort = Effort { warm_up: 1, rounds_min: 4, rounds_max: 9, ..Effort::SHORT[0] };

#[test]
fn every_round_asks_every_contender_once() {
    let log = Rc::new(RefCell::new(Vec::new()));
    let sampler = |number: usize| -> Sampler {
        let log = Rc::clone(&log);
        Box::new(move || {
            log.borrow_mut().push(number);
            Ok(vec![1.0, 2.0])
        })
    };
    let mut samplers = [sampler(0), sampler(1), sampler(2)];
    let effort = Effort { time_max: Duration::from_secs(60), ..EFFORT };
    let series = rounds(&mut samplers, effort, &mut Random::new(1)).unwrap();
    assert!(series.iter().all(|rows| rows.len() == 2 && rows[0].len() == 9));
    let log = log.borrow();
    assert_eq!(log.len(), 3 * 10);
    for round in log.chunks(3) {
        assert!((0..3).all(|number| round.contains(&number)));
    }
    let orders: std::collections::HashSet<_> = log.chunks(3).collect();
    assert!(orders.len() > 1, "the order must change from round to round");
}

#[test]
fn a_slow_contender_takes_one_sample() {
    let slow = || {
        std::thread::sleep(Duration::from_millis(2));
        Ok(vec![1.0])
    };
    let mut samplers: [Sampler; 2] = [Box::new(slow), Box::new(|| Ok(vec![1.0]))];
    let effort = Effort { contender_time_max: Duration::from_millis(1), ..EFFORT };
    let series = rounds(&mut samplers, effort, &mut Random::new(1)).unwrap();
    assert_eq!([series[0][0].len(), series[1][0].len()], [1, 9]);
}
