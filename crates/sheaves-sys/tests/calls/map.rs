//! `map`.

use core::ptr::with_exposed_provenance_mut;

use sheaves_sys::map::*;

use crate::{mappings, own_process};

#[test]
fn exact_mapping_never_replaces() {
    let page = page_bytes();
    // Far below where the kernel puts mappings by itself: no other thread's mapping lands here.
    let there = 1 << 32;
    for _ in 0..2 {
        assert_eq!(exactly(there, page), Exactly::Mapped);
        assert_eq!(exactly(there, page), Exactly::Occupied);
        // SAFETY: mapped by this test.
        unsafe { unmap(there, page) };
    }
    assert_eq!(exactly(usize::MAX - page + 1, page), Exactly::Refused);
}

#[test]
fn mappings_grow_in_place() {
    let page = page_bytes();
    let start = (1 << 32) + (1 << 30);
    let at = |pages: usize| start + pages * page;
    // SAFETY: the pages from `start` on are this test's.
    let extend = |end, more| unsafe { extend(end, more) };
    assert_eq!(exactly(start, page), Exactly::Mapped);
    assert!(extend(at(1), 2 * page));
    // SAFETY: it was made longer, and is read and written.
    unsafe { with_exposed_provenance_mut::<u8>(at(3) - 1).write(1) };
    // With another mapping behind it, too.
    assert!(reserve_exactly(at(3), page));
    assert!(!extend(at(3), page));
    // SAFETY: mapped by this test.
    unsafe { unmap(start, 4 * page) };
}

#[test]
fn alignment_is_kept_and_surplus_returned() {
    for shift in 12..31 {
        let (address, mapping) = aligned(4096, 1 << shift).unwrap();
        assert_eq!((address % (1 << shift), mapping), (0, address..address + 4096));
        // SAFETY: mapped by this test.
        unsafe { unmap(address, 4096) };
    }
}

/// At the limit of mappings the surplus may stay. It is in the mapping that is returned.
#[test]
fn surplus_that_stays_is_known() {
    const OWN: &str = "SHEAVES_TEST_OWN";
    if std::env::var_os(OWN).is_none() {
        own_process::pass("map::surplus_that_stays_is_known", &[(OWN, "1")]);
        return;
    }
    if !mappings::is_limit_near() {
        return;
    }
    let (place, bytes) = mappings::exhaust();
    let free = place.addr() + mappings::PAGE;
    // SAFETY: a page that `exhaust` has made different from its neighbours.
    assert!(unsafe { forbid(free, mappings::PAGE) });
    let before = mappings::bytes();
    let mut known = 0;
    for pages in 1..=64 {
        // What is mapped next is below it.
        known += anywhere(pages * mappings::PAGE).map_or(0, |_| pages * mappings::PAGE);
        known += aligned(1 << 16, 1 << 16).map_or(0, |(_, mapping)| mapping.len());
    }
    assert_eq!(mappings::bytes() - before, known);
    // SAFETY: mapped by `exhaust`, not used.
    assert!(unsafe { unmap(place.addr(), bytes) });
}

#[test]
fn reserved_space_is_committed_in_pieces() {
    let start = reserve(1 << 30).unwrap();
    // SAFETY: reserved by this test.
    assert!(unsafe { commit(start + 4096, 4096) });
    let word = with_exposed_provenance_mut::<u64>(start + 4096);
    // SAFETY: just committed, owned by this test.
    unsafe { word.write(5) };
    // SAFETY: mapped by this test.
    unsafe { discard(start + 4096, 4096) };
    // SAFETY: still mapped.
    assert_eq!(unsafe { word.read() }, 0);
    // SAFETY: mapped by this test.
    unsafe { unmap(start, 1 << 30) };
}

#[test]
fn mappings_move_with_their_contents() {
    let page = page_bytes();
    // Where no other thread's mapping lands, once this one has moved away.
    let (old, new) = ((1 << 32) + (2 << 30), reserve(3 * page).unwrap());
    assert_eq!(exactly(old, page), Exactly::Mapped);
    // SAFETY: mapped by this test.
    unsafe { with_exposed_provenance_mut::<u64>(old).write(7) };
    // SAFETY: both ranges are mapped by this test.
    assert!(unsafe { move_to(old, page, 2 * page, new) });
    // SAFETY: two pages are readable there now.
    let words =
        unsafe { [0, page].map(|offset| with_exposed_provenance_mut::<u64>(new + offset).read()) };
    assert_eq!(words, [7, 0]);
    assert!(!reserve_exactly(new, page));
    // SAFETY: nothing is mapped at the old address, so nothing moves.
    assert!(!unsafe { move_to(old, page, page, new + 2 * page) });
    // SAFETY: mapped by this test.
    unsafe { unmap(new, 3 * page) };
}
