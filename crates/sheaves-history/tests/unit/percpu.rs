//! Objects do not overlap, each version keeps its promises about hints, and the work shows what
//! made the change of 2019 necessary.

use std::collections::BTreeMap;

use super::hints::{BLOCK_BITS, Hints};
use super::*;

/// Memory without contents.
struct Nowhere;

impl Memory for Nowhere {
    fn depopulate(&mut self, _: usize, pages: Range<usize>) {
        assert!(!pages.is_empty());
    }
}

/// Contig is a free run, never too large and, if `exact`, the longest one.
fn check(chunk: &Chunk, from: u32, hints: &Hints, exact: bool) {
    let end = from + hints.bits;
    let runs = chunk.free_runs().filter(|run| run.end > from && run.start < end);
    let runs: Vec<Run> =
        runs.map(|run| Run { start: run.start.max(from), end: run.end.min(end) }).collect();
    let longest = runs.iter().map(|run| run.bits()).max().unwrap_or(0);
    assert!(if exact { hints.contig == longest } else { hints.contig <= longest });
    let first = runs.first().map_or(end, |run| run.start);
    assert_eq!(hints.first_free, first - from);
    let contig = Run::new(from + hints.contig_start, hints.contig);
    let lies_in = |run: &Run| run.start <= contig.start && contig.end <= run.end;
    assert!(hints.contig == 0 || runs.iter().any(lies_in));
}

fn verify<const HINTS: bool>(allocator: &Allocator<HINTS, Nowhere>, objects: usize) {
    let live = (0..allocator.chunks.len()).filter(|chunk| allocator.is_live(*chunk));
    let mut free_bytes = 0;
    for chunk in live.map(|chunk| &allocator.chunks[chunk]) {
        check(chunk, 0, &chunk.hints, false);
        for (index, block) in chunk.blocks.iter().enumerate() {
            check(chunk, index as u32 * BLOCK_BITS, block, !HINTS);
        }
        let free: u32 = chunk.free_runs().map(Run::bits).sum();
        assert_eq!(chunk.free_bits, free);
        let empty = chunk.empty_pages();
        assert!(if HINTS { chunk.empty == empty } else { chunk.empty >= empty });
        free_bytes += free as usize * GRAIN_BYTES;
    }
    let all = allocator.statistics().chunks as usize * allocator.unit_bytes;
    assert_eq!(all - free_bytes, objects);
}

/// Random requests and frees, compared with a model.
fn storm<const HINTS: bool>(seed: u64) {
    let mut random = seed;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % limit
    };
    let unit_bytes = (32 << 10) << (seed % 4);
    let mut allocator = Allocator::<HINTS, _>::new(Nowhere, unit_bytes, (2 << 20) / unit_bytes);
    let mut model = BTreeMap::new();
    for operation in 0..6000 {
        let grows = operation / 1000 % 2 == 0;
        if below(4) < if grows { 3 } else { 1 } {
            let most = [64, 900, 20_000][seed as usize % 3];
            let (size, align) = (1 + below(most), 1 << below(13));
            let Some(offset) = allocator.alloc(size, align) else { continue };
            let end = offset + size.next_multiple_of(GRAIN_BYTES);
            assert!(offset.is_multiple_of(align) && offset / unit_bytes == (end - 1) / unit_bytes);
            let before = model.range(..end).next_back();
            assert!(before.is_none_or(|(_, before)| *before <= offset), "objects overlap");
            model.insert(offset, end);
        } else if let Some((&offset, _)) = model.iter().nth(below(model.len().max(1))) {
            model.remove(&offset);
            assert!(allocator.free(offset) && !allocator.free(offset));
        }
        if allocator.balance_wanted() {
            allocator.balance();
        }
        if operation % 64 == 0 {
            verify(&allocator, model.iter().map(|(offset, end)| end - offset).sum());
        }
    }
}

#[test]
fn objects_do_not_overlap_and_hints_hold() {
    for seed in 1..=12 {
        storm::<false>(seed);
        storm::<true>(seed);
    }
}

/// Work per object for `count` filters, and the bytes of their holes.
fn filters<const HINTS: bool>(count: usize, objects: &[(usize, usize)]) -> (f64, usize) {
    let mut allocator = Allocator::<HINTS, _>::new(Nowhere, 32 << 10, 4096);
    for _ in 0..count {
        for (size, align) in objects {
            allocator.alloc(*size, *align).unwrap();
        }
    }
    let tested = allocator.work().chunks_tested as f64 / (count * objects.len()) as f64;
    (tested, allocator.unusable_bytes())
}

#[test]
fn v50_tests_more_chunks_the_more_there_are() {
    let filter = &[(16, 16), (16, 16), (20, 4)];
    let (few, many) = (filters::<false>(4_000, filter), filters::<false>(16_000, filter));
    assert!(many.0 > 3.0 * few.0, "{few:?} {many:?}");
    let after = filters::<true>(16_000, filter);
    assert!(after.0 <= 1.01, "{after:?}");
    assert_eq!(filters::<true>(6_144, filter).1, 6_144 * 12);
    assert!(filters::<false>(16_000, &[(16, 4)]).0 <= 1.01, "without holes they are alike");
}
