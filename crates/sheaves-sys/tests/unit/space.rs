//! Tests of private items of `space`.

use super::*;

/// A byte of memory that this test has taken.
fn byte(address: usize) -> &'static core::sync::atomic::AtomicU8 {
    // SAFETY: taken, and not untaken while the reference is used.
    unsafe { &*core::ptr::with_exposed_provenance(address) }
}

fn is_taken_in_pieces(space: &Space) {
    let page = map::page_bytes();
    let start = space.base() + 64 * page;
    // SAFETY: in the space, and not taken.
    assert!(unsafe { space.take(start, page) });
    byte(start).store(7, Ordering::Relaxed);
    // SAFETY: taken above, not used after this.
    unsafe { space.untake(start, page) };
    // SAFETY: not taken now.
    assert!(unsafe { space.take(start, 2 * page) });
    assert_eq!(byte(start).load(Ordering::Relaxed), 0);
    let part = Part::new();
    part.place(start + 2 * page, 3 * page);
    for bytes in [1, page, page + 1, 3 * page, 2] {
        // SAFETY: the part is in the space, beside what was taken.
        assert!(unsafe { part.grow_to(space, bytes) });
        byte(part.start() + bytes - 1).store(1, Ordering::Relaxed);
    }
    // SAFETY: as above.
    assert!(!unsafe { part.grow_to(space, 3 * page + 1) });
    // A thread has grown it, and is gone before it has said so.
    part.taken.store(page, Ordering::Relaxed);
    part.wanted.store(3 * page, Ordering::Relaxed);
    // SAFETY: as above.
    unsafe { part.recover(space) };
    // SAFETY: as above.
    assert!(unsafe { part.grow_to(space, 3 * page) });
    assert_eq!(byte(part.start() + page).load(Ordering::Relaxed), 0);
    assert_eq!(byte(part.start()).load(Ordering::Relaxed), 1);
}

#[test]
fn spaces_are_taken_in_pieces() {
    let reserved = Space::new();
    assert!(reserved.reserve(1 << 30));
    is_taken_in_pieces(&reserved);
    let found = Space::new();
    if found.find(1 << 30, map::page_bytes()) {
        byte(found.base()).store(1, Ordering::Relaxed);
        is_taken_in_pieces(&found);
        // Memory that is mapped already stays.
        // SAFETY: refused, because it is taken.
        assert!(!unsafe { found.take(found.base(), map::page_bytes()) });
        assert_eq!(byte(found.base()).load(Ordering::Relaxed), 1);
    }
}
