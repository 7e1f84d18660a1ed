//! Statistics agree with what was done.

use sheaves_percpu::dynamic::{Allocator, ChunkLabel, Config, Fixed, Growth, Offset, PAGE_BYTES};

use crate::arena::Arena;
use crate::random::Random;

const CONFIG: Config = Config { unit_bytes: 32 << 10, chunks_max: 8, head_bytes: 4096 };

fn allocator() -> Allocator<Fixed, Arena> {
    Allocator::new(Arena::new(2, CONFIG.head_bytes), CONFIG).unwrap()
}

#[test]
fn nothing_is_there_at_first() {
    let mut a = allocator();
    let s = a.statistics();
    assert_eq!((s.unit_bytes, s.head_bytes, s.object_bytes_limit), (32 << 10, 4096, 32 << 10));
    assert_eq!((s.allocations, s.objects, s.objects_max, s.chunks), (0, 0, 0, 0));
    assert_eq!((s.object_bytes_min, s.object_bytes_max, s.populated_pages), (0, 0, 0));
    assert!(s.metadata_bytes_per_chunk < s.unit_bytes / 12);
    assert_eq!(a.chunk_statistics(0), None);
    assert_eq!(a.chunk_statistics(usize::MAX), None);
    assert_eq!((a.unusable_bytes(), a.allocated_bytes()), (0, 0));
}

#[test]
fn objects_pages_and_chunks_are_counted() {
    let mut a = allocator();
    let mut alloc = |size| a.alloc(size, 4, Growth::Allowed).unwrap();
    let (small, large, first) = (alloc(13), alloc(20_000), alloc(100));
    let _second_chunk = alloc(30_000);
    a.free(large).unwrap();
    let s = a.statistics();
    assert_eq!((s.allocations, s.frees, s.objects, s.objects_max), (4, 1, 3, 4));
    assert_eq!((s.object_bytes_min, s.object_bytes_max), (16, 30_000));
    assert_eq!((s.chunks, s.chunks_max), (2, 2));
    // The hidden head, 20,116 bytes behind it, and 30,000 bytes of the second chunk.
    assert_eq!(s.populated_pages, 1 + 5 + 8);
    assert_eq!(s.empty_pages, 3);
    assert_eq!(a.allocated_bytes(), 16 + 100 + 30_000);
    assert_eq!(a.chunks().collect::<Vec<_>>(), [0, 1]);

    let c = a.chunk_statistics(0).unwrap();
    assert_eq!(
        (c.chunk, c.label, c.objects, c.object_bytes_max),
        (0, ChunkLabel::First, 2, 20_000)
    );
    assert_eq!((c.populated_pages, c.empty_pages, c.first_free), (6, 3, small.bytes() + 16));
    let behind = CONFIG.unit_bytes - first.bytes() - 100;
    assert_eq!((c.free_bytes, c.contig_bytes), (20_000 + behind, 20_000));
    assert_eq!((c.fragment_bytes, c.fragment_bytes_max), (20_000, 20_000));
    assert_eq!((c.current_bytes_min, c.current_bytes_median, c.current_bytes_max), (16, 16, 100));
    assert_eq!(a.chunk_statistics(1).unwrap().label, ChunkLabel::Ordinary);
}

#[test]
fn chunk_statistics_agree_with_a_model() {
    let mut random = Random::new(3);
    for _ in 0..50 {
        let mut a = allocator();
        let mut objects: Vec<(Offset, usize)> = Vec::new();
        while a.statistics().chunks < 2 {
            let size = random.log_uniform(700).next_multiple_of(4);
            let offset = a.alloc(size, 1 << random.below(7), Growth::Allowed).unwrap();
            objects.push((offset, size));
        }
        for _ in 0..objects.len() / 2 {
            let (offset, size) = objects.swap_remove(random.below(objects.len()));
            assert_eq!(a.free(offset), Ok(size));
        }
        objects.retain(|(offset, _)| offset.bytes() < CONFIG.unit_bytes);
        objects.sort();
        let mut runs = Vec::new();
        let mut at = PAGE_BYTES;
        for (offset, size) in &objects {
            runs.push(offset.bytes() - at);
            at = offset.bytes() + size;
        }
        let behind = CONFIG.unit_bytes - at;
        let c = a.chunk_statistics(0).unwrap();
        assert_eq!(c.objects as usize, objects.len());
        assert_eq!(c.fragment_bytes, runs.iter().sum());
        assert_eq!(c.fragment_bytes_max, runs.iter().copied().max().unwrap());
        assert_eq!(c.free_bytes, c.fragment_bytes + behind);
        assert_eq!(c.contig_bytes, c.fragment_bytes_max.max(behind));
        let mut sizes: Vec<usize> = objects.iter().map(|(_, size)| *size).collect();
        sizes.sort();
        let median = sizes[(sizes.len() - 1) / 2];
        let found = (c.current_bytes_min, c.current_bytes_median, c.current_bytes_max);
        assert_eq!(found, (sizes[0], median, sizes[sizes.len() - 1]));
    }
}
