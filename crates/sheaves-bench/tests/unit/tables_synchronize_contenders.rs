//! Tests of `src/tables/synchronize/contenders.rs`.

use crate::tables::synchronize::contenders::*;
use crate::tables::synchronize::flood::Flood;
use alloc::sync::Arc;
use sheaves_history::callback;
use sheaves_history::prototype;

const COUNT: usize = 100;

fn check<C: Wait>(contender: C, to: Queue) {
    let contender = Arc::new(contender);
    let queue = Arc::clone(&contender);
    contender.enter_thread();
    let call = move |object| {
        // SAFETY: objects of a flood are fresh, and given up when they are queued.
        unsafe { queue.call(to, object) };
    };
    let flood = Flood::new(Box::new(call));
    (0..COUNT).for_each(|_| flood.queue());
    // Each callback queues another one: there are as many for as long as it lasts.
    while flood.ended() < 10 * COUNT {
        // In this order: callbacks go on between the two.
        let ended = flood.ended();
        assert!(flood.queued() - ended >= COUNT);
        contender.synchronize();
    }
    flood.end();
    contender.pause();
    flood.wait();
    contender.resume();
    contender.leave_thread();
    assert_eq!(flood.queued(), flood.ended());
}

#[test]
fn what_is_queued_is_taken_back() {
    check(Ours::new(sheaves_rcu::synchronize), Queue::Own);
    check(Ours::new(sheaves_rcu::synchronize), Queue::Older);
    check(Ours::new(callback::synchronize), Queue::Own);
    check(Ours::new(prototype::synchronize), Queue::Own);
    #[cfg(feature = "peers")]
    for (_, flavour) in crate::contenders::liburcu::flavours() {
        check(crate::tables::synchronize::liburcu::Waiter { flavour }, Queue::Own);
    }
}
