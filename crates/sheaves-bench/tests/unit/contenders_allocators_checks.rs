//! Checks that every home-made contender must pass.

use std::sync::mpsc::channel;

use crate::contenders::allocators::Allocator;

const THREADS: usize = 4;
const ROUNDS: usize = 200;
const LIVE: usize = 300;

/// Several threads fill and empty; each marks its objects and finds the marks unchanged, which
/// fails if an object was given to two of them.
pub(crate) fn churn<C: Allocator>(contender: &C, size: usize) {
    let turn = |thread: usize| {
        let mut live: Vec<(*mut u64, u64)> = Vec::with_capacity(LIVE);
        for round in 0..ROUNDS {
            for index in 0..LIVE {
                let mark = (thread << 48 | round << 24 | index) as u64;
                let object = contender.alloc(size).cast::<u64>();
                assert!(!object.is_null());
                // SAFETY: the object is fresh and holds at least eight bytes.
                unsafe { object.write(mark) };
                live.push((object, mark));
            }
            let keep = round % 7;
            for (object, mark) in live.drain(keep..) {
                // SAFETY: the object is live and was written above.
                assert_eq!(unsafe { object.read() }, mark, "an object has two owners");
                // SAFETY: handed out above and freed once.
                unsafe { contender.free(object.cast(), size) };
            }
            for (object, _) in live.drain(..) {
                // SAFETY: as above.
                unsafe { contender.free(object.cast(), size) };
            }
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || turn(thread));
        }
    });
}

/// One thread allocates, another frees.
pub(crate) fn exchange<C: Allocator>(contender: &C, size: usize) {
    let (send, receive) = channel::<usize>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for mark in 0..LIVE * 20 {
                let object = contender.alloc(size).cast::<usize>();
                // SAFETY: the object is fresh and holds at least eight bytes.
                unsafe { object.write(mark) };
                send.send(object.expose_provenance()).unwrap();
            }
        });
        for (mark, address) in receive.iter().enumerate() {
            let object = core::ptr::with_exposed_provenance_mut::<usize>(address);
            // SAFETY: the sender wrote the object and gave it away.
            assert_eq!(unsafe { object.read() }, mark);
            // SAFETY: handed out by the sender and freed once.
            unsafe { contender.free(object.cast(), size) };
        }
    });
}
