//! Channels.

use sheaves_rcu::defer::{Channel, barrier, reclaim, statistics as deferred};
use sheaves_rcu::internal::pressure::Pressure;

use crate::{
    Object, Reader, all_called, alone, free_later, free_object, is_own, pass_own, pointer_of,
    wait_until,
};

static CHANNEL: Channel = Channel::new("objects", free_object);

#[test]
fn objects_are_freed_once_and_counted_exactly() {
    let _alone = alone();
    // Counts around the capacity of a sheaf and of four.
    for count in [1, 123, 124, 125, 495, 496, 497, 3000] {
        let objects = Object::many(count);
        let reader = Reader::start();
        for (index, object) in objects.iter().enumerate() {
            free_later(&CHANNEL, object, 100 + index);
        }
        let pending = deferred().channels;
        let bytes: usize = (0..count).map(|index| 100 + index).sum();
        assert_eq!((pending.objects, pending.bytes), (count as u64, bytes as u64));
        assert!(all_called(objects, 0));
        drop(reader);
        barrier().unwrap();
        assert!(all_called(objects, 1), "of {count}");
        assert_eq!((deferred().channels.objects, deferred().channels.bytes), (0, 0));
    }
    assert_eq!(deferred().sealed.bytes, 0);
    assert_eq!(CHANNEL.name(), "objects");
}

#[test]
fn an_object_that_is_deferred_twice_is_freed_once() {
    let _alone = alone();
    if !cfg!(debug_assertions) {
        return;
    }
    let objects = Object::many(600);
    let reader = Reader::start();
    for object in objects {
        free_later(&CHANNEL, object, 8);
    }
    // One sealed sheaf, and one that is not sealed.
    free_later(&CHANNEL, &objects[0], 8);
    free_later(&CHANNEL, &objects[599], 8);
    drop(reader);
    barrier().unwrap();
    assert!(all_called(objects, 1));
}

#[test]
fn large_objects_start_a_grace_period_by_their_bytes() {
    let _alone = alone();
    if !is_own() {
        // The age bound is a minute, so it does not cause the free.
        let test = "channels::large_objects_start_a_grace_period_by_their_bytes";
        pass_own(test, &[("SHEAVES_RCU_AGE_MS", "60000")]);
        return;
    }
    let objects = Object::many(10);
    for object in objects {
        free_later(&CHANNEL, object, 64 << 20);
    }
    wait_until("large objects to be freed", || all_called(objects, 1));
}

#[test]
fn the_caller_helps_when_there_is_too_much() {
    let _alone = alone();
    if !is_own() {
        let options = [
            ("SHEAVES_RCU_AGE_MS", "60000"),
            ("SHEAVES_RCU_RECLAIMERS", "0"),
            ("SHEAVES_RCU_BYTES", "30000"),
        ];
        pass_own("channels::the_caller_helps_when_there_is_too_much", &options);
        return;
    }
    let reader = Reader::start();
    let objects = Object::many(100_000);
    let (first, rest) = objects.split_at(5_000);
    for object in first {
        free_later(&CHANNEL, object, 10);
    }
    // Nothing is freed before its grace period, however much is pending.
    assert!(all_called(first, 0));
    drop(reader);
    for object in rest {
        free_later(&CHANNEL, object, 10);
    }
    // The program has not polled: the thread that defers has freed them itself, except those in an
    // open sheaf, which it may have left behind when it moved to another slot.
    let left = first.iter().filter(|object| !all_called(core::slice::from_ref(object), 1)).count();
    assert!(left <= 124, "{left} objects");
    assert!(deferred().channels.bytes < 100_000, "{:?}", deferred());
    barrier().unwrap();
    assert!(all_called(objects, 1) && !reclaim());
    assert!(Pressure::None < Pressure::Soft && Pressure::High < Pressure::Hard);
}

#[test]
fn an_object_with_a_head_needs_it_only_in_an_emergency() {
    let _alone = alone();
    let objects = Object::many(100);
    for object in objects {
        let head = (&raw const object.head).cast_mut();
        // SAFETY: the object is never freed, and the head is its first field.
        unsafe { CHANNEL.free_later_with(head, pointer_of(object), 8) };
    }
    assert_eq!(deferred().linked_objects, 0);
    barrier().unwrap();
    assert!(all_called(objects, 1));
}
