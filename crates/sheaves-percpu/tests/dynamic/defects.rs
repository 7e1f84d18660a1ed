//! Every known defect, switched on, is noticed: by verification, or by the work that it causes.

use sheaves_percpu::dynamic::verify::Promise;
use sheaves_percpu::dynamic::{
    Allocator, Config, Counters, Fixed, Growth, Offset, PAGE_BYTES, Policy, V52,
};

use crate::arena::Arena;
use crate::property::{Sizes, run};
use crate::tester::Tester;
use crate::variant::{
    But, COARSE_LISTS, END_IN_BLOCK, FREE_BYTES_KEY, FixedBut, NO_HINTS_USED, NO_OVERLAP,
    NO_RELEGATION, NO_STITCH, OPEN_WINDOW, RECOUNT, RIGHT_FORGOTTEN, SCAN_IN_CONTIG,
    SCAN_NOT_LONGEST, STALE_STARTS, TEST_ALL, WRONG_LENGTH,
};

const CONFIG: Config = Config { unit_bytes: 32 << 10, chunks_max: 16, head_bytes: 0 };

/// Runs all sizes with some seeds; the first thing that verification finds.
fn first_violation<P: Policy>(promise: Promise) -> Option<String> {
    let runs = (1..=8).flat_map(|seed| Sizes::ALL.map(|sizes| (seed, sizes)));
    runs.map(|(seed, sizes)| {
        let mut tester = Tester::<P>::new(CONFIG, 1, promise);
        run(&mut tester, sizes, seed, 1000).err()
    })
    .find_map(|violation| violation)
}

/// The policy breaks the promise of [`Fixed`] in one of these ways.
fn assert_breaks<P: Policy>(ways: &[&str]) {
    let violation = first_violation::<P>(Promise::FIXED).expect("verification finds nothing");
    assert!(ways.iter().any(|way| violation.contains(way)), "{violation}");
}

#[test]
fn fixed_breaks_nothing_in_the_same_runs() {
    assert_eq!(first_violation::<Fixed>(Promise::FIXED), None);
}

/// P-a: a chunk's longest run is not raised by what is freed inside a block.
#[test]
fn an_end_counted_from_the_block_leaves_contig_too_small() {
    assert_breaks::<FixedBut<END_IN_BLOCK>>(&["contig hint: "]);
}

/// P-a: such a chunk is not found again, though there is room in it.
#[test]
fn an_end_counted_from_the_block_loses_a_chunk() {
    fn chunks_after_free_and_alloc<P: Policy>() -> u64 {
        let mut a = Allocator::<P, _>::new(Arena::new(1, 0), CONFIG).unwrap();
        let objects: Vec<Offset> =
            (0..2048).map(|_| a.alloc(16, 16, Growth::Allowed).unwrap()).collect();
        a.free(objects[2000]).unwrap();
        a.alloc(16, 16, Growth::Allowed).unwrap();
        a.statistics().chunks
    }
    assert_eq!(chunks_after_free_and_alloc::<V52>(), 1);
    assert_eq!(chunks_after_free_and_alloc::<Fixed>(), 1);
    assert_eq!(chunks_after_free_and_alloc::<But<V52, END_IN_BLOCK>>(), 2);
}

/// P-b: the scan hint lies in contig.
#[test]
fn a_swallowed_scan_hint_is_found() {
    assert_breaks::<FixedBut<SCAN_IN_CONTIG>>(&["scan hint"]);
}

/// P-c: a start without a hint.
#[test]
fn a_stale_start_is_found() {
    assert_breaks::<FixedBut<STALE_STARTS>>(&["that is not set"]);
}

/// P-d: the right run is too short after a refresh that began at the scan hint.
#[test]
fn a_forgotten_right_run_is_found() {
    assert_breaks::<FixedBut<RIGHT_FORGOTTEN>>(&["right run of a block: 0"]);
}

/// P-d2: a longer run lies before the scan hint, and contig comes out too small from a refresh.
#[test]
fn a_scan_hint_that_is_not_the_longest_is_found() {
    assert_breaks::<FixedBut<SCAN_NOT_LONGEST>>(&["scan hint", "contig hint"]);
}

/// P-k: the chunk believes in a run that is not there.
#[test]
fn a_wrong_length_of_a_freed_run_is_found() {
    assert_breaks::<FixedBut<WRONG_LENGTH>>(&["contig hint", "free bits of a hint", "scan hint"]);
}

/// Without joining across blocks the longest run of a chunk is missed.
#[test]
fn a_run_cut_at_a_block_is_found() {
    assert_breaks::<FixedBut<NO_STITCH>>(&["contig hint"]);
}

/// A hint that is not broken by an area that begins before it, on the policy where hints of
/// chunks may be parts of runs.
#[test]
fn an_overlap_that_is_not_seen_is_found() {
    assert_eq!(first_violation::<V52>(Promise::V52), None);
    let violation = first_violation::<But<V52, NO_OVERLAP>>(Promise::V52);
    assert!(violation.is_some_and(|violation| violation.contains("hint")));
}

/// P-j: a search that finds no room goes on beyond the chunk.
#[test]
fn an_open_window_leads_out_of_the_chunk() {
    /// Where a search ends that begins with the last page of a full chunk.
    fn found<P: Policy>() -> Option<usize> {
        let mut a = Allocator::<P, _>::new(Arena::new(1, 0), CONFIG).unwrap();
        a.alloc(CONFIG.unit_bytes, 4, Growth::Allowed).unwrap();
        let last_page = Offset::new(CONFIG.unit_bytes - PAGE_BYTES);
        a.search_map(last_page, 400, 16).map(Offset::bytes)
    }
    assert_eq!(found::<Fixed>(), None);
    assert_eq!(found::<V52>(), None);
    assert_eq!(found::<FixedBut<OPEN_WINDOW>>(), Some(CONFIG.unit_bytes));
}

/// Work per allocation of so many filters: chunks tested, words read, blocks refreshed.
fn work<P: Policy>(filters: usize) -> [f64; 3] {
    let config = Config { chunks_max: 1024, ..CONFIG };
    let mut a = Allocator::<P, _>::new(Arena::new(1, 0), config).unwrap();
    for _ in 0..filters {
        for (size, align) in [(16, 16), (16, 16), (20, 4)] {
            a.alloc(size, align, Growth::Allowed).unwrap();
        }
    }
    let Counters { chunks_tested, words_read, blocks_refreshed, .. } = a.counters();
    [chunks_tested, words_read, blocks_refreshed].map(|count| count as f64 / (3 * filters) as f64)
}

/// P-g: chunks that are full of holes are tested again and again.
#[test]
fn lists_by_free_bytes_test_more_chunks_the_more_there_are() {
    let [few, ..] = work::<FixedBut<{ FREE_BYTES_KEY | TEST_ALL }>>(4_000);
    let [many, ..] = work::<FixedBut<{ FREE_BYTES_KEY | TEST_ALL }>>(16_000);
    let [fixed, ..] = work::<Fixed>(16_000);
    assert!(many > 3.0 * few && many > 10.0 * fixed, "{few} {many} {fixed}");
}

/// P-h: every search reads the map from the first hole on.
#[test]
fn searches_from_the_first_free_bit_read_more_words() {
    let [_, words, _] = work::<FixedBut<NO_HINTS_USED>>(4_000);
    let [_, fixed, _] = work::<Fixed>(4_000);
    assert!(words > 10.0 * fixed, "{words} {fixed}");
}

/// P-i: every allocation visits the blocks of its chunk.
#[test]
fn recounts_visit_all_blocks() {
    let [_, _, blocks] = work::<FixedBut<RECOUNT>>(4_000);
    let [_, _, fixed] = work::<Fixed>(4_000);
    assert!(blocks > 4.0 && fixed < 0.1, "{blocks} {fixed}");
}

/// Chunks tested by 100 requests where 32 chunks are full of holes of `hole` bytes.
fn tested_among_holes<P: Policy>(hole: usize, size: usize, align: usize) -> u64 {
    let config = Config { chunks_max: 64, ..CONFIG };
    let mut a = Allocator::<P, _>::new(Arena::new(1, 0), config).unwrap();
    let mut objects = Vec::new();
    while a.statistics().chunks <= 32 {
        objects.push(a.alloc(hole, 4, Growth::Allowed).unwrap());
    }
    for object in objects.iter().step_by(2) {
        a.free(*object).unwrap();
    }
    let before = a.counters().chunks_tested;
    for _ in 0..100 {
        a.alloc(size, align, Growth::Allowed).unwrap();
    }
    a.counters().chunks_tested - before
}

/// Without relegation, and where lists are no finer than powers of two, chunks of small holes that
/// do not fit are tested every time.
#[test]
fn unfit_chunks_are_tested_again_without_relegation() {
    let coarse = tested_among_holes::<FixedBut<{ NO_RELEGATION | COARSE_LISTS | TEST_ALL }>>;
    assert!(coarse(16, 20, 4) > 3000);
    assert!(tested_among_holes::<V52>(16, 20, 4) < 150);
    assert!(tested_among_holes::<Fixed>(16, 20, 4) < 150);
}

/// Larger holes relegate no chunk: V52 tests them all every time. Fine lists avoid that, or at
/// least the limit of tests does when the holes are large enough but badly aligned.
#[test]
fn unfit_chunks_of_larger_holes_are_tested_within_limits() {
    assert!(tested_among_holes::<V52>(40, 60, 4) > 3000);
    assert!(tested_among_holes::<Fixed>(40, 60, 4) < 150);
    assert!(tested_among_holes::<FixedBut<TEST_ALL>>(68, 64, 64) > 1000);
    assert!(tested_among_holes::<Fixed>(68, 64, 64) < 1000);
}
