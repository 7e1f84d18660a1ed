//! Deferred callbacks.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use sheaves_percpu::internal::{EngineMode, mode};
use sheaves_rcu::defer::{
    BarrierError, Head, barrier, call_hurry, flush, reclaim, statistics as deferred,
};
use sheaves_rcu::{RcuCell, defer, is_reading, read, synchronize};

use crate::{Object, Reader, all_called, allocations_in, alone, count_call, object_of, wait_until};

#[test]
fn nothing_is_called_while_a_thread_reads() {
    let _alone = alone();
    let objects = Object::many(10_000);
    let reader = Reader::start();
    objects.iter().for_each(Object::defer);
    flush();
    thread::sleep(core::time::Duration::from_millis(100));
    assert!(all_called(objects, 0));
    let pending = deferred();
    assert_eq!(pending.calls.objects + pending.linked_calls.objects, 10_000);
    assert!(pending.oldest_age_ms > 0);
    drop(reader);
    barrier().unwrap();
    assert!(all_called(objects, 1));
    let pending = deferred();
    assert_eq!(pending.calls.objects + pending.linked_calls.objects, 0);
    assert_eq!(pending.sealed.objects, 0);
    assert_eq!(pending.sealed.bytes, 0);
}

#[test]
fn a_full_buffer_is_sealed_whole() {
    let _alone = alone();
    // Counts around the capacity of a buffer, to detect an entry too many or too few.
    for count in (120..130).chain(240..260) {
        let objects = Object::many(count);
        objects.iter().for_each(Object::defer);
        barrier().unwrap();
        assert!(all_called(objects, 1), "of {count}");
    }
}

#[test]
fn what_is_deferred_is_called_by_age_alone() {
    let _alone = alone();
    for _ in 0..3 {
        let objects = Object::many(1);
        objects[0].defer();
        wait_until("a call by age", || objects[0].calls() == 1);
    }
}

#[test]
fn a_call_that_hurries_is_called() {
    let _alone = alone();
    let object = &Object::many(1)[0];
    // SAFETY: the object is never freed.
    unsafe { call_hurry((&raw const object.head).cast_mut(), count_call) };
    wait_until("a hurried call", || object.calls() == 1);
}

#[test]
fn a_barrier_reaches_every_slot_and_allocates_nothing() {
    let _alone = alone();
    const THREADS: usize = 64;
    let objects = Object::many(THREADS * 3);
    let gate = Arc::new(Barrier::new(THREADS + 1));
    // Each thread leaves a partial buffer in its slot, and stays idle.
    let threads: Vec<_> = (0..THREADS)
        .map(|index| {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                objects[index * 3..][..3].iter().for_each(Object::defer);
                gate.wait();
                gate.wait();
            })
        })
        .collect();
    gate.wait();
    assert_eq!(allocations_in(|| barrier().unwrap()), 0);
    assert!(all_called(objects, 1));
    assert_eq!(allocations_in(|| assert!(deferred().calls.objects < 9)), 0);
    gate.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_barrier_inside_of_a_section_is_refused() {
    let _alone = alone();
    let guard = read();
    assert_eq!(barrier(), Err(BarrierError::InsideReader));
    assert!(!reclaim());
    drop(guard);
    assert_eq!(barrier(), Ok(()));
}

#[test]
fn a_call_may_do_anything() {
    let _alone = alone();
    static RESULT: Mutex<Option<(Result<(), BarrierError>, bool)>> = Mutex::new(None);
    unsafe extern "C" fn anything(head: *mut Head) {
        let object = object_of(head);
        drop(vec![1_u8; 1000]);
        drop(read());
        synchronize().unwrap();
        flush();
        *RESULT.lock().unwrap() = Some((barrier(), reclaim()));
        // Defers the same head again, ten calls in all.
        if object.calls.fetch_add(1, Ordering::SeqCst) < 9 {
            object.defer_to(anything);
        }
        assert!(!is_reading());
    }
    let object = &Object::many(1)[0];
    object.defer_to(anything);
    wait_until("ten calls", || object.calls() == 10);
    assert_eq!(*RESULT.lock().unwrap(), Some((Err(BarrierError::InsideCall), false)));
}

#[test]
fn calls_of_one_slot_keep_their_order() {
    let _alone = alone();
    static ORDER: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    unsafe extern "C" fn note(head: *mut Head) {
        ORDER.lock().unwrap().push(head.addr());
    }
    // With restartable sequences, a thread changes its slot when the kernel migrates it.
    if mode() != EngineMode::Portable {
        return;
    }
    ORDER.lock().unwrap().clear();
    let objects = Object::many(5000);
    objects.iter().for_each(|object| object.defer_to(note));
    barrier().unwrap();
    let order = ORDER.lock().unwrap();
    assert_eq!(order.len(), objects.len());
    assert!(order.is_sorted());
}

#[test]
fn closures_and_retired_values_are_dropped_once() {
    let _alone = alone();
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Counted(Box<u64>);
    impl Drop for Counted {
        fn drop(&mut self) {
            assert_eq!(*self.0, 7);
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    let cell = RcuCell::new(Counted(Box::new(7)));
    for _ in 0..1000 {
        cell.store(Counted(Box::new(7))).defer();
        let owned = Counted(Box::new(7));
        defer(move || drop(owned));
    }
    // A value without a destructor is only memory.
    RcuCell::new(5_u32).store(6).defer();
    barrier().unwrap();
    assert_eq!(DROPS.load(Ordering::SeqCst), 2000);
}

#[test]
fn a_head_that_is_queued_twice_is_called_once() {
    let _alone = alone();
    let objects = Object::many(3);
    let reader = Reader::start();
    for object in objects {
        object.defer();
        object.defer();
    }
    drop(reader);
    barrier().unwrap();
    assert!(all_called(objects, 1));
    // The head is idle afterwards.
    objects.iter().for_each(Object::defer);
    barrier().unwrap();
    assert!(all_called(objects, 2));
}

#[test]
fn barriers_of_many_threads_all_return() {
    let _alone = alone();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let objects = Object::many(50);
                    objects.iter().for_each(Object::defer);
                    barrier().unwrap();
                    assert!(all_called(objects, 1));
                }
            });
        }
    });
}

#[test]
fn short_threads_leave_nothing() {
    let _alone = alone();
    let objects = Object::many(3000);
    for few in objects.chunks(3) {
        thread::spawn(move || few.iter().for_each(Object::defer)).join().unwrap();
    }
    wait_until("calls of threads that are gone", || all_called(objects, 1));
    wait_until("memory to come back", || deferred().sealed.objects == 0);
    assert!(deferred().mapped_bytes <= 6 * 64 * 1024, "{:?}", deferred());
}
