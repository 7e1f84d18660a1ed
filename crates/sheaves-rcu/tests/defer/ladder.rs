//! Every rung of the emergency ladder, reached by making requests for memory fail.

use core::mem::offset_of;
use core::time::Duration;

use sheaves_rcu::defer::{Channel, barrier, statistics as deferred};
use sheaves_rcu::internal::faults::FAULTS;
use sheaves_rcu::{Cookie, read};

use crate::{
    Object, Reader, all_called, alone, free_later, free_object, happens_within, pointer_of,
};

static CHANNEL: Channel = Channel::new("ladder", free_object);

/// Requests for memory fail while this exists.
struct Failing;

impl Failing {
    fn one_in(requests: u32) -> Failing {
        FAULTS.fail_one_in(requests);
        Failing
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        FAULTS.fail_one_in(0);
    }
}

fn free_later_with(object: &'static Object, bytes: usize) {
    let head = (&raw const object.head).cast_mut();
    // SAFETY: the object is never freed, and the head is one of its fields.
    unsafe { CHANNEL.free_later_with(head, pointer_of(object), bytes) };
}

#[test]
fn calls_without_memory_are_linked() {
    let _alone = alone();
    let before = deferred().emergencies.linked;
    let objects = Object::many(10_000);
    let reader = Reader::start();
    let failing = Failing::one_in(1);
    objects.iter().for_each(Object::defer);
    assert!(deferred().linked_calls.objects > 9000, "{:?}", deferred());
    assert!(deferred().emergencies.linked > before);
    assert!(all_called(objects, 0));
    drop(reader);
    barrier().unwrap();
    assert!(all_called(objects, 1));
    drop(failing);
    assert_eq!(deferred().linked_calls.objects, 0);
    assert_eq!(deferred().sealed.bytes, 0);
}

#[test]
fn heads_that_come_late_wait_for_their_own_cookie() {
    let _alone = alone();
    assert!((0..10).any(|_| early_ones_come_first()), "the early ones wait for the late ones");
}

/// False if the grace period of the early objects has begun so late that it waits for the second
/// reader, too. This happens when this thread or the reclaimer was preempted.
fn early_ones_come_first() -> bool {
    let (early, late) = (Object::many(3000), Object::many(3000));
    let failing = Failing::one_in(1);
    let first = Reader::start();
    // More than the number at which a list is sealed.
    early.iter().for_each(Object::defer);
    // A grace period that is under way does not wait for a reader that comes later.
    let _ = Cookie::start_poll_expedited().poll();
    // This reader can only have seen the late objects.
    let second = Reader::start();
    late.iter().for_each(Object::defer);
    drop(first);
    let came_first = happens_within(Duration::from_secs(5), || all_called(&early[..1900], 1));
    assert!(all_called(late, 0));
    drop(second);
    drop(failing);
    barrier().unwrap();
    assert!(all_called(early, 1) && all_called(late, 1));
    came_first
}

#[test]
fn objects_with_heads_are_linked() {
    let _alone = alone();
    assert_eq!(offset_of!(Object, head), 0);
    let objects = Object::many(2000);
    let reader = Reader::start();
    let failing = Failing::one_in(1);
    for object in objects {
        free_later_with(object, 24);
    }
    let pending = deferred();
    assert_eq!(pending.linked_objects, 2000);
    assert_eq!((pending.channels.objects, pending.channels.bytes), (2000, 48_000));
    assert!(all_called(objects, 0));
    drop(reader);
    barrier().unwrap();
    drop(failing);
    assert!(all_called(objects, 1));
    assert_eq!(deferred().channels.bytes, 0);
    assert_eq!(deferred().sealed.bytes, 0);
}

#[test]
fn objects_in_sheaves_and_in_lists_are_all_freed() {
    let _alone = alone();
    let before = deferred().emergencies.linked;
    let objects = Object::many(20_000);
    let failing = Failing::one_in(2);
    for object in objects {
        free_later_with(object, 8);
    }
    drop(failing);
    assert!(deferred().emergencies.linked > before);
    barrier().unwrap();
    assert!(all_called(objects, 1));
}

#[test]
fn without_a_head_the_caller_waits() {
    let _alone = alone();
    let before = deferred().emergencies.waits;
    let objects = Object::many(20);
    let failing = Failing::one_in(1);
    for object in objects {
        free_later(&CHANNEL, object, 8);
        assert_eq!(object.calls(), 1);
    }
    drop(failing);
    assert_eq!(deferred().emergencies.waits, before + 20);
}

#[test]
fn without_a_head_a_reader_leaks() {
    let _alone = alone();
    let before = deferred().emergencies.leaks;
    let objects = Object::many(20);
    let failing = Failing::one_in(1);
    let guard = read();
    for object in objects {
        free_later(&CHANNEL, object, 8);
    }
    drop(guard);
    drop(failing);
    barrier().unwrap();
    // They must not be freed too early, so they are never freed.
    assert!(all_called(objects, 0));
    assert_eq!(deferred().emergencies.leaks, before + 20);
}
