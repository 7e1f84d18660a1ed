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
    assert!(unsafe { space.take(start, page, false) });
    byte(start).store(7, Ordering::Relaxed);
    // SAFETY: taken above, not used after this.
    unsafe { space.untake(start, page) };
    // SAFETY: not taken now.
    assert!(unsafe { space.take(start, 2 * page, false) });
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
    assert_eq!(byte(part.start()).load(Ordering::Relaxed), 1);
}

#[test]
fn spaces_are_taken_in_pieces() {
    let reserved = Space::new();
    assert!(reserved.reserve(1 << 30));
    is_taken_in_pieces(&reserved);
    let found = Space::new();
    let [range, _] = Area::Spaces.ranges();
    if found.find(&range, 1 << 30, map::page_bytes()) {
        byte(found.base()).store(1, Ordering::Relaxed);
        is_taken_in_pieces(&found);
        // Memory that is mapped already stays.
        // SAFETY: refused, because it is taken.
        assert!(!unsafe { found.take(found.base(), map::page_bytes(), false) });
        assert_eq!(byte(found.base()).load(Ordering::Relaxed), 1);
    }
}

#[test]
fn places_lie_in_their_area() {
    for area in [Area::Windows, Area::Spaces] {
        let [range, low] = area.ranges();
        assert!(low.end <= 1 << 39 && range.start >= low.start);
        let mut places = Places::new(area);
        let places = [(); 3].map(|()| places.next(range.len()));
        assert!(places.iter().all(|place| place.is_multiple_of(ALIGN) && *place <= range.len()));
        assert!(places[0] != places[1] && places[1] != places[2]);
    }
    assert!(Area::Windows.of_bits(47) == (0x1000_0000_0000..0x2800_0000_0000));
    assert!(Area::Spaces.of_bits(47) == (0x2800_0000_0000..0x5000_0000_0000));
}
