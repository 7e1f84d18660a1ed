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
fn the_last_sheaf_follows_from_the_links() {
    let sheaves = [(); 4].map(|()| sheaf());
    let mut queue = Queue::new();
    queue.recover();
    assert_eq!(queue.last, None);
    let cursor = |number: usize| sheaves[number].cursor(STATE_ENTRIES + number + 1);
    for number in 0..3 {
        // SAFETY: memory of this test.
        unsafe { queue.append(STATE_ENTRIES + 1, cursor(number)) };
    }
    // Stale values of `last`, as an interrupted change leaves them.
    for last in [Some(Sealed::of(sheaves[1])), Some(Sealed::of(sheaves[0])), None] {
        queue.last = last;
        queue.recover();
        assert_eq!(queue.last, Some(Sealed::of(sheaves[2])));
        assert_eq!(queue.each().map(Sealed::objects).sum::<usize>(), 6);
    }
    // SAFETY: as above.
    unsafe { queue.append(STATE_ENTRIES + 1, cursor(3)) };
    assert!(queue.each().map(Sealed::cursor).eq((0..4).map(cursor)));
    assert!(sheaves.iter().all(|sheaf| sheaf.sentinel() == STATE_ENTRIES));
    queue.first = None;
    queue.recover();
    assert_eq!(queue.last, None);
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
