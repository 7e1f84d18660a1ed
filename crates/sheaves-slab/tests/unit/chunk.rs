extern crate std;
use super::in_progress::InProgress;
use super::purge::{Which, purge};
use super::state::{CHUNKS, DENSE_MS, chunk, mask, position_of, runs_of};
use super::{HugePages, begin_run, finish_run, give_run};
use crate::raw::{Cache, Options};
use core::alloc::Layout;
use sheaves_rcu::defer;

#[test]
fn runs_are_found_bit_by_bit() {
    for (free, count) in
        [(0b1111_u32, 3), (0b1011_0111, 3), (u32::MAX, 32), (0, 1), (1 << 31, 1), (!1, 31)]
    {
        for bit in 0..32 {
            let is_run =
                bit + count <= 32 && (bit..bit + count).all(|place| free & (1 << place) != 0);
            assert_eq!(runs_of(free, count) & (1 << bit) != 0, is_run, "{free:b} {count} {bit}");
        }
    }
}

/// A thread that is copied in the middle of a change has changed any bits of one map and not of
/// another.
#[test]
fn half_made_changes_are_put_in_order() {
    let _started = Cache::new("chunks", Layout::new::<u64>(), Options::default()).unwrap();
    let runs = [1, 3, 8].map(|count| {
        let made = begin_run(count, 1).unwrap();
        finish_run(&made);
        (made.first, count)
    });
    let mut chunks = CHUNKS.lock();
    let before = (chunks.used, chunks.dirty);
    for (first, count) in runs {
        let (index, bit) = position_of(first);
        let state = chunk(index);
        // On their way back, or out again, and nothing else says so.
        state.clean |= mask(bit, count);
        state.young |= mask(bit, count);
    }
    (chunks.used, chunks.dirty) = (7, 7);
    chunks.first_fit.fill(u32::MAX);
    chunks.first_fit_dirty.fill(u32::MAX);
    chunks.recover();
    assert_eq!((chunks.used, chunks.dirty), before);
    for index in 0..chunks.count {
        let state = chunk(index);
        assert_eq!(state.clean & !state.free, 0);
        assert_eq!(state.young & (!state.free | state.clean), 0);
    }
    drop(chunks);
    for (first, count) in runs {
        give_run(first, count);
    }
}

#[test]
fn granules_of_this_thread_stay_in_progress() {
    let mut list = InProgress::new();
    assert_eq!(list.begin(5, 1), Some(0));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(list.begin(6, 2), Some(1)));
    });
    let other = list.of_others().next().unwrap();
    assert_eq!((other.index, other.granules), (6, 2));
    other.thread = 0;
    assert!(list.of_others().next().is_none());
    assert_eq!(list.begin(7, 4), Some(1));
    list.end(0);
    assert_eq!(list.begin(8, 8), Some(0));
}

/// The flags that the kernel has for the mapping of an address, in `smaps`.
fn kernel_flags(address: usize) -> std::string::String {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_inside = false;
    for line in smaps.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16);
        if let Some((Ok(start), Ok(end))) = range.map(|(from, to)| (number(from), number(to))) {
            is_inside = (start..end).contains(&address);
        } else if is_inside && let Some(flags) = line.strip_prefix("VmFlags: ") {
            return flags.into();
        }
    }
    panic!("{address:#x} is not mapped");
}

#[test]
fn dense_chunks_ask_for_huge_pages_until_they_have_holes() {
    if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        return;
    }
    let _started = Cache::new("dense", Layout::new::<u64>(), Options::default()).unwrap();
    let has_asked = |address| kernel_flags(address).split(' ').any(|flag| flag == "hg");
    for (mode, asks) in [(HugePages::Never, false), (HugePages::Auto, true)] {
        CHUNKS.lock().huge_pages = mode;
        let run = begin_run(32, 32).unwrap();
        finish_run(&run);
        let address = run.first.address();
        assert!(!has_asked(address));
        for _ in 0..u64::from(DENSE_MS) / defer::period_ms().unwrap() {
            purge(Which::Old);
        }
        assert_eq!(has_asked(address), asks, "{mode:?}");
        give_run(run.first, 32);
        purge(Which::All);
        assert!(!has_asked(address));
    }
    CHUNKS.lock().huge_pages = HugePages::Always;
    // Above all chunks that were mapped before.
    let runs = std::vec::Vec::from_iter((0..4).map(|_| begin_run(32, 32).unwrap()));
    runs.iter().for_each(finish_run);
    assert!(has_asked(runs[3].first.address()));
    for run in runs {
        give_run(run.first, 32);
    }
    super::fork::note_child();
    assert_eq!(CHUNKS.lock().huge_pages, HugePages::Always);
    CHUNKS.lock().huge_pages = HugePages::Auto;
    super::fork::note_child();
    assert_eq!(CHUNKS.lock().huge_pages, HugePages::Never);
    CHUNKS.lock().huge_pages = HugePages::Auto;
}
