//! Tests of `src/harness/ring.rs`.

use super::*;

fn pointer(number: usize) -> *mut u8 {
    core::ptr::without_provenance_mut(number)
}

#[test]
fn everything_arrives_once_and_in_order() {
    const COUNT: usize = 100_000;
    let ring = Ring::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = ring.producer();
            (0..COUNT).for_each(|number| producer.push(pointer(number)));
        });
        let mut consumer = ring.consumer();
        assert!((0..COUNT).all(|number| consumer.pop().addr() == number));
        assert_eq!(consumer.try_pop(), None);
    });
}

#[test]
fn the_queue_is_bounded_and_can_be_reused() {
    let ring = Ring::new();
    for round in 0..3 {
        let mut producer = ring.producer();
        (0..CAPACITY).for_each(|number| producer.push(pointer(number + round)));
        assert_eq!(producer.sent - producer.taken, CAPACITY);
        drop(producer);
        let mut consumer = ring.consumer();
        assert!((0..CAPACITY).all(|number| consumer.pop().addr() == number + round));
        assert_eq!(consumer.try_pop(), None);
    }
}
