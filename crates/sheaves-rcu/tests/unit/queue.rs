//! Tests of private items of `defer/store/queue`.

use alloc::boxed::Box;

use super::*;

/// A sheaf in memory of the test, which is never freed.
fn sheaf() -> Sheaf {
    #[repr(align(1024))]
    struct Aligned([usize; Sheaf::ENTRIES]);
    let memory = Box::leak(Box::new(Aligned(core::array::from_fn(|index| index))));
    // SAFETY: aligned memory of a sheaf's size.
    let sheaf = unsafe { Sheaf::at(memory.0.as_mut_ptr().expose_provenance()) };
    // SAFETY: the test owns it.
    let _ = unsafe { sheaf.format(Sheaf::OBJECTS_MAX - STATE_ENTRIES) };
    sheaf
}

#[test]
fn sheaves_come_out_in_the_order_in_which_they_were_sealed() {
    let sheaves = [(); 4].map(|()| sheaf());
    let mut queue = Queue::new();
    let cursor = |number: usize| sheaves[number].cursor(STATE_ENTRIES + number + 1);
    for number in 0..4 {
        // SAFETY: memory of this test.
        unsafe { queue.append(STATE_ENTRIES + 1, cursor(number)) };
    }
    assert!(queue.each().map(Sealed::cursor).eq((0..4).map(cursor)));
    assert_eq!(queue.each().map(Sealed::objects).sum::<usize>(), 10);
    assert!(sheaves.iter().all(|sheaf| sheaf.sentinel() == STATE_ENTRIES));
    for number in 0..4 {
        assert_eq!(queue.oldest().map(Sealed::cursor), Some(cursor(number)));
        queue.remove_oldest();
    }
    assert_eq!((queue.oldest(), queue.last), (None, None));
}

#[test]
fn entries_are_taken_in_their_order() {
    let mut queue = Queue::new();
    // SAFETY: memory of this test.
    unsafe { queue.append(4, sheaf().cursor(6)) };
    let front = queue.oldest().unwrap();
    // SAFETY: at the front, and used by this thread only.
    assert_eq!([(); 4].map(|()| unsafe { front.take() }), [Some(4), Some(5), Some(6), None]);
    assert_eq!((front.objects(), front.left().count()), (3, 0));
    queue.remove_oldest();
    assert!(queue.oldest().is_none() && queue.last.is_none());
}
