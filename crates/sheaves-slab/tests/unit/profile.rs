//! Tests of private items of `records/profile`.

extern crate std;

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::*;
use crate::parts::shape::Name;

/// One test at a time turns profiling on. Not by a lock of the library: a fork of a thread that
/// holds one does not wait for others for long, and is not prepared then.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn live(kind: Kind) -> (u64, u64, u64) {
    let mut sums = (0, 0, 0);
    for site in sites(head().session, 0).map(|listed| listed.site) {
        if site.source.kind == kind {
            sums.0 += site.live.samples;
            sums.1 += site.live.objects / chance::WEIGHT_ONE;
            sums.2 += site.live.bytes / chance::WEIGHT_ONE;
        }
    }
    sums
}

const fn request(bytes: usize) -> AllocRequest {
    AllocRequest { bytes, align: 0, frame: Frame::NONE }
}

/// As `realloc` does.
fn resize(address: usize, new_address: usize, old: usize, new: usize) {
    if large::note_resize(address, new_address, old, &request(new)) {
        large::note_growth(new_address, old, &request(new));
    }
}

#[test]
fn large_blocks_keep_their_weight_when_they_are_resized() {
    let _one = alone();
    assert!(begin(1 << 20));
    const BLOCKS: usize = 4000;
    let address = |index: usize| (index + 1) << 20;
    let check = |bytes: usize, what: &str| {
        let (samples, objects, sum) = live(Kind::Large);
        assert_eq!(samples as usize, open_records());
        // Three standard errors of the estimate.
        let error = BLOCKS as f64 * 3.0 / (samples as f64).sqrt();
        assert!((objects as f64 - BLOCKS as f64).abs() < error, "{what}: {objects} of {BLOCKS}");
        let (sum, true_sum) = (sum as f64, (BLOCKS * bytes) as f64);
        assert!((sum - true_sum).abs() < error * bytes as f64, "{what}: {sum} of {true_sum}");
    };
    for index in 0..BLOCKS {
        large::note_alloc(address(index), &request(1 << 20));
    }
    check(1 << 20, "new");
    for index in 0..BLOCKS {
        resize(address(index), address(index) + 4096, 1 << 20, 3 << 20);
    }
    check(3 << 20, "longer");
    for index in 0..BLOCKS {
        resize(address(index) + 4096, address(index), 3 << 20, 1 << 19);
    }
    check(1 << 19, "shorter");
    for index in 0..BLOCKS {
        close(address(index));
    }
    assert_eq!((live(Kind::Large), open_records()), ((0, 0, 0), 0));
    end();
}

#[test]
fn a_deferred_sample_moves_to_the_place_of_its_deferral() {
    let _one = alone();
    // Other tests have no samples at this rate.
    assert!(begin(RATE_BYTES_MAX));
    let name = Name::new("cache");
    let source = Source { kind: Kind::Cache, cache: 9, is_deferral: false, name };
    let word = 0x4444_usize;
    // SAFETY: the word outlives it.
    let here = unsafe { Frame::of((&raw const word).addr(), 0) };
    PROFILE.lock().open(source, 64, [32, 32, 0], &Stack::of(Frame::NONE));
    defer(64, here);
    defer(64, Frame::NONE);
    assert_eq!((open_records(), deferred_records()), (1, 1));
    let mut found = 0;
    for listed in sites(head().session, 0) {
        let is_there = u64::from(listed.site.source.is_deferral);
        let addresses = listed.addresses().len() as u64;
        assert_eq!((listed.site.live.samples, addresses), (is_there, is_there));
        found += 1;
    }
    assert_eq!(found, 2);
    assert!(close(64) && !close(64));
    assert_eq!((open_records(), deferred_records()), (0, 0));
    end();
}

/// Otherwise nothing would end its record.
#[test]
fn a_sample_is_deferred_where_there_is_no_room_for_the_place() {
    let _one = alone();
    assert!(begin(RATE_BYTES_MAX));
    let name = Name::new("cache");
    let source = Source { kind: Kind::Cache, cache: 9, is_deferral: false, name };
    let mut profile = PROFILE.lock();
    profile.open(source, 64, [32, 32, 0], &Stack::of(Frame::NONE));
    let mut addresses = 0..;
    while profile.sites.find(source, &[addresses.next().unwrap()]).is_some() {}
    drop(profile);
    let word = 0x5555_usize;
    // SAFETY: the word outlives it.
    defer(64, unsafe { Frame::of((&raw const word).addr(), 0) });
    assert_eq!((open_records(), deferred_records()), (1, 1));
    assert_eq!(live(Kind::Cache).0, 1);
    let sums = sites(head().session, 0).map(|listed| listed.site.all.samples).sum::<u64>();
    assert_eq!(sums, 1, "counted once");
    assert!(close(64));
    assert_eq!((open_records(), deferred_records()), (0, 0));
    end();
}

#[test]
fn a_new_session_knows_nothing_of_the_one_before() {
    let _one = alone();
    assert!(begin(1 << 20));
    large::note_alloc(1 << 30, &request(1 << 30));
    assert_eq!(open_records(), 1);
    let before = head().session;
    assert!(begin(1 << 20));
    assert_eq!((open_records(), live(Kind::Large)), (0, (0, 0, 0)));
    assert!(sites(before, 0).next().is_none());
    close(1 << 30);
    resize(1 << 30, 1 << 31, 1 << 30, 1 << 29);
    assert_eq!(open_records(), 0);
    end();
    large::note_alloc(1 << 30, &request(1 << 30));
    assert_eq!(open_records(), 0);
}
