//! Tests of private items of `space/chunk`.

extern crate std;
use super::advice::Advice;
use super::bits::{mask, runs_of};
use super::dense::DENSE_MS;
use super::discard::{Free, discard_in_chunk};
use super::in_progress::InProgress;
use super::state::{CHUNKS, granule_of, position_of};
use super::{HugePages, begin_run, do_due_after_free, finish_run, footprint, release_run};
use crate::raw::{Cache, Options};
use crate::space::window::CHUNK_BYTES;
use core::alloc::Layout;
use core::panic::AssertUnwindSafe;
use sheaves_rcu::internal::keeper;
use sheaves_sys::map;
use std::panic::catch_unwind;
use std::process::Command;
use std::string::String;
use std::sync::Barrier;

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

/// Whether `body` is true in the child of a fork.
fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without the harness of the tests.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: our own child, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status == 0
}

fn granules_of_this_thread_stay_in_progress() {
    let mut list = InProgress::new();
    assert_eq!(list.begin(5, 1), Some(0));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(list.begin(6, 2), Some(1)));
    });
    assert!(list.of_gone().next().is_none());
    assert!(in_child(|| {
        let other = list.of_gone().next().unwrap();
        assert_eq!((other.index, other.granules), (6, 2));
        other.thread = 0;
        assert!(list.of_gone().next().is_none());
        assert_eq!(list.begin(7, 4), Some(1));
        list.end(0);
        list.begin(8, 8) == Some(0)
    }));
}

/// A signal handler may fork while its thread holds the lock.
fn a_child_whose_thread_held_the_lock_has_what_others_worked_on() {
    let _started = Cache::new("gone", Layout::new::<u64>(), Options::default()).unwrap();
    let used = footprint().used_bytes;
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let run = begin_run(4, 1).unwrap();
            barrier.wait();
            barrier.wait();
            finish_run(&run);
        });
        barrier.wait();
        let held = CHUNKS.lock();
        let is_right = in_child(|| {
            drop(held);
            do_due_after_free();
            footprint().used_bytes == used
        });
        barrier.wait();
        assert!(is_right);
    });
    assert!(footprint().used_bytes > used);
}

/// In a process of its own: a fork changes what other tests find of advice.
#[test]
fn granules_in_progress() {
    const PROCESS: &str = "SHEAVES_TEST_CHUNK_PROCESS";
    if std::env::var_os(PROCESS).is_none() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "space::chunk::tests::granules_in_progress"]);
        let output = command.env(PROCESS, "1").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
        return;
    }
    granules_of_this_thread_stay_in_progress();
    a_child_whose_thread_held_the_lock_has_what_others_worked_on();
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

/// One test, because the first part needs chunks that no part has used.
#[test]
fn advice_is_given_where_it_is_due() {
    if std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
        dense_chunks_ask_for_huge_pages_until_they_have_holes();
        advice_splits_the_heap_into_few_mappings();
    }
    chunks_that_are_skipped_where_others_were_have_no_advice();
}

fn discard_granules(free: Free) {
    let count = CHUNKS.lock().count;
    (0..count).for_each(|index| _ = discard_in_chunk(index, free, usize::MAX));
}

fn dense_chunks_ask_for_huge_pages_until_they_have_holes() {
    let _started = Cache::new("dense", Layout::new::<u64>(), Options::default()).unwrap();
    let has = |address, wanted| kernel_flags(address).split(' ').any(|flag| flag == wanted);
    let has_asked = |address| has(address, "hg");
    for (mode, asks) in [(HugePages::Never, false), (HugePages::Auto, true)] {
        CHUNKS.lock().huge_pages = mode;
        let run = begin_run(32, 32).unwrap();
        finish_run(&run);
        let address = run.first.address();
        assert!(has(address, "nh") && !has_asked(address));
        for _ in 0..u64::from(DENSE_MS) / keeper::period_ms().unwrap() {
            discard_granules(Free::Old);
        }
        assert_eq!(has_asked(address), asks, "{mode:?}");
        release_run(run.first, 32);
        discard_granules(Free::All);
        assert!(!has_asked(address));
    }
    CHUNKS.lock().huge_pages = HugePages::Always;
    let mapped = CHUNKS.lock().count;
    let mut runs = std::vec::Vec::new();
    while runs.last().is_none_or(|run: &super::Run| position_of(run.first).0 < mapped) {
        runs.push(begin_run(32, 32).unwrap());
        finish_run(runs.last().unwrap());
    }
    assert!(has_asked(runs.last().unwrap().first.address()));
    for run in runs {
        release_run(run.first, 32);
    }
    super::note_child();
    assert_eq!(CHUNKS.lock().huge_pages, HugePages::Always);
    CHUNKS.lock().huge_pages = HugePages::Auto;
    super::note_child();
    assert_eq!(CHUNKS.lock().huge_pages, HugePages::Never);
    CHUNKS.lock().huge_pages = HugePages::Auto;
}

/// The mappings that begin in some chunks, behind the start of the first one.
fn splits(chunks: core::ops::Range<usize>) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let begins = maps.lines().filter_map(|line| line.split_once('-'));
    let begins = begins.map(|(begin, _)| usize::from_str_radix(begin, 16).unwrap());
    let [first, end] = [chunks.start, chunks.end].map(|index| granule_of(index, 0).address());
    begins.filter(|begin| (first + 1..end).contains(begin)).count()
}

fn advice_splits_the_heap_into_few_mappings() {
    let _started = Cache::new("split", Layout::new::<u64>(), Options::default()).unwrap();
    let runs = std::vec::Vec::from_iter((0..200).map(|_| begin_run(32, 32).unwrap()));
    runs.iter().for_each(finish_run);
    // Other tests use other chunks meanwhile, under the lock.
    let mut chunks = CHUNKS.lock();
    let first = position_of(runs[100].first).0;
    assert_eq!(position_of(runs[199].first).0, first + 99);
    let dense = |chunks: &mut super::state::Chunks, index| {
        chunks.chunk_mut(index).dense_ms = DENSE_MS;
        chunks.ask_if_dense(index);
        chunks.chunk(index).advice == Advice::Prefer
    };
    let before = chunks.boundaries;
    let asked = (first..first + 100).step_by(2).filter(|index| dense(&mut chunks, *index)).count();
    assert!((1..40).contains(&asked), "{asked} of 50");
    assert_eq!(splits(first - 1..first + 100), chunks.boundaries - before);
    // What adds no boundary is always allowed: chunks beside those that have asked.
    for index in first..first + 100 {
        dense(&mut chunks, index);
    }
    assert!((first..first + 100).all(|index| chunks.chunk(index).advice == Advice::Prefer));
    assert!(splits(first..first + 100) <= 1);
    // A hole, and a boundary would be too many: all down to the next one ask no more.
    let now = chunks.boundaries;
    chunks.avoid(first + 10, now);
    assert!(chunks.boundaries <= now, "{} after {now}", chunks.boundaries);
    assert!((first..=first + 10).all(|index| chunks.chunk(index).advice == Advice::Avoid));
    assert_eq!(splits(first..first + 100), 1);
    let now = chunks.boundaries;
    chunks.avoid(first + 50, now + 2);
    assert_eq!(splits(first..first + 100), 3);
    // The others beside it are as they were.
    assert_eq!([49, 51].map(|index| chunks.chunk(first + index).advice), [Advice::Prefer; 2]);
    let end = chunks.count;
    chunks.advise(first, end, Advice::Avoid, usize::MAX);
    drop(chunks);
    runs.iter().for_each(|run| release_run(run.first, 32));
}

/// Takes whole chunks until one of them has this number or a higher one.
fn take_to(chunks: &mut super::state::Chunks, number: usize) -> std::vec::Vec<(usize, bool)> {
    let mut taken = std::vec::Vec::new();
    while taken.last().is_none_or(|(index, _)| *index < number) {
        let (index, _, is_clean) = chunks.take_run(32, 32).unwrap();
        taken.push((index, is_clean));
    }
    taken
}

fn give_all(chunks: &mut super::state::Chunks, taken: &[(usize, bool)]) {
    taken.iter().for_each(|(index, is_clean)| chunks.give(*index, u32::MAX, *is_clean));
}

fn chunks_that_are_skipped_where_others_were_have_no_advice() {
    let _started = Cache::new("skipped", Layout::new::<u64>(), Options::default()).unwrap();
    let mut chunks = CHUNKS.lock();
    chunks.shrink();
    let next = chunks.count;
    let taken = take_to(&mut chunks, next + 1);
    let end = chunks.count;
    chunks.change(next, end, Advice::Prefer);
    give_all(&mut chunks, &taken);
    chunks.shrink();
    assert_eq!((chunks.count, chunks.end), (next, next * 32));
    let address = granule_of(next, 0).address();
    assert!(map::reserve_exactly(address, CHUNK_BYTES), "it was unmapped");
    let taken = take_to(&mut chunks, next + 1);
    assert_eq!(chunks.advice(next), Advice::Foreign);
    let boundaries: usize = (0..chunks.count).map(|index| chunks.boundary_before(index)).sum();
    assert_eq!(chunks.boundaries, boundaries);
    give_all(&mut chunks, &taken);
    // SAFETY: reserved by this test; the heap does not use it.
    unsafe { map::unmap(address, CHUNK_BYTES) };
}

/// A part of a chunk is mapped at first; the rest follows when it is needed.
#[test]
fn the_last_chunk_grows_by_parts() {
    let _started = Cache::new("parts", Layout::new::<u64>(), Options::default()).unwrap();
    let mut chunks = CHUNKS.lock();
    let mut runs = std::vec::Vec::new();
    let mut ends = std::vec::Vec::new();
    while ends.len() < 40 {
        let (index, bit, _) = chunks.take_run(5, 1).unwrap();
        assert!(index * 32 + bit as usize + 5 <= chunks.end && bit + 5 <= 32);
        runs.push((index, bit));
        if ends.last() != Some(&chunks.end) {
            ends.push(chunks.end);
        }
    }
    assert!(ends.iter().any(|end| end % 32 == 0));
    assert!(chunks.count * 32 >= chunks.end && chunks.count * 32 < chunks.end + 32);
    for (index, bit) in runs {
        chunks.give(index, mask(bit, 5), false);
    }
}
