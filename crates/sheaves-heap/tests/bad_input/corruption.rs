//! Frees of addresses that are no block, double frees, writes outside blocks.

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use sheaves_heap::{calloc, check_freed, free, malloc, realloc, trim, usable_size};
use sheaves_slab::raw::{Cache, Options};

use crate::End::{Dies, GoesOn};

const DEBUG: [(&str, &str); 1] = [("SHEAVES_DEBUG", "1")];
const EXACT: [(&str, &str); 1] = [("SHEAVES_HARDEN", "2")];
const NONE: [(&str, &str); 0] = [];

/// Frees an address at a distance from the start of a block.
fn free_inside(size: usize, distance: usize) {
    let block = malloc(size);
    // Bad input on purpose: the heap has to detect it.
    // SAFETY: afterwards only the check that detects it uses the heap.
    unsafe { free(block.wrapping_add(distance)) };
}

/// Frees a block twice, while another of the same size is alive.
fn free_twice(size: usize) {
    let (block, _alive) = (malloc(size), malloc(size));
    // SAFETY: from this heap.
    unsafe { free(block) };
    // SAFETY: bad input on purpose; the block is not used any more.
    unsafe { free(block) };
}

/// Changes one byte where the caller may not write, but in memory that the heap has mapped.
fn spoil(block: *mut u8, distance: isize) {
    let byte = block.wrapping_offset(distance);
    // SAFETY: bad input on purpose; pad, red zone or a freed object, all of which stay mapped.
    let value = unsafe { byte.read() };
    // SAFETY: as above.
    unsafe { byte.write(!value) };
}

/// Writes one byte at a distance from the start of a block, and frees the block.
fn write_and_free(size: usize, distance: isize) {
    let block = malloc(size);
    spoil(block, distance);
    // SAFETY: from this heap.
    unsafe { free(block) };
}

fn cache(name: &str, debug: bool) -> Cache {
    let options = Options { debug, ..Options::default() };
    Cache::new(name, Layout::new::<[u64; 6]>(), options).unwrap()
}

crate::cases! {
    large_block_twice_hardened [("SHEAVES_HARDEN", "1")], Dies("double free?") => {
        free_twice(300_000);
    }
    byte_past_the_end_exact EXACT, Dies("something was written past its end") => {
        write_and_free(100, 100);
    }
    terminator_past_the_end_exact EXACT, Dies("something was written past its end") => {
        let block = malloc(48);
        // SAFETY: bad input on purpose, in memory that stays mapped.
        unsafe { block.wrapping_add(48).write(0) };
        // SAFETY: from this heap.
        unsafe { free(block) };
    }
    byte_past_the_end_of_a_middle_block_exact EXACT, Dies("written past its end") => {
        write_and_free(50_000, 50_000);
    }
    byte_past_the_end_of_an_object_exact EXACT, Dies("something was written past its end") => {
        let cache = cache("exact", false);
        let object = cache.alloc().unwrap();
        spoil(object.as_ptr(), 48);
        // SAFETY: from this cache.
        unsafe { cache.free(object) };
    }
    sizes_are_exact EXACT, GoesOn(&[]) => {
        for size in (1..5000).chain([40_000, 100_000, 700_000]) {
            let block = malloc(size);
            // SAFETY: from this heap.
            assert_eq!(unsafe { usable_size(block) }, size);
            // SAFETY: the block has that size.
            unsafe { block.write_bytes(0xa5, size) };
            // SAFETY: from this heap.
            let block = unsafe { realloc(block, size + size / 3) };
            // SAFETY: the block has that size.
            let bytes = unsafe { core::slice::from_raw_parts(block, size) };
            assert!(bytes.iter().all(|byte| *byte == 0xa5));
            // SAFETY: from this heap.
            unsafe { free(block) };
        }
    }
    foreign_address NONE, Dies("free of 0x123456780, which is not from this heap") => {
        let _started = malloc(1);
        // SAFETY: bad input on purpose.
        unsafe { free(with_exposed_provenance_mut(0x1_2345_6780)) };
    }
    foreign_address_as_the_first_call NONE, Dies("which is not from this heap") => {
        // SAFETY: bad input on purpose.
        unsafe { free(with_exposed_provenance_mut(0x1_2345_6780)) };
    }
    foreign_address_debug DEBUG, Dies("which is not from this heap") => {
        // SAFETY: bad input on purpose.
        unsafe { free(with_exposed_provenance_mut(0x1_2345_6780)) };
    }
    address_on_the_stack NONE, Dies("which is not from this heap") => {
        let mut local = [0_u128; 4];
        // SAFETY: bad input on purpose.
        unsafe { free((&raw mut local).cast()) };
    }
    address_in_static_data NONE, Dies("which is not from this heap") => {
        static DATA: [u128; 4] = [1; 4];
        // SAFETY: bad input on purpose.
        unsafe { free((&raw const DATA).cast_mut().cast()) };
    }
    address_of_another_heap NONE, Dies("which is not from this heap") => {
        let _started = malloc(1);
        let other = Box::leak(Box::new([0_u128; 4]));
        // SAFETY: bad input on purpose.
        unsafe { free(core::ptr::from_mut(other).cast()) };
    }
    address_of_another_mapping NONE, Dies("which is not from this heap") => {
        let _started = malloc(1);
        let other = sheaves_sys::map::anywhere(1 << 16).unwrap();
        // SAFETY: bad input on purpose.
        unsafe { free(with_exposed_provenance_mut(other)) };
    }
    null_before_the_first_growth_is_complete NONE, GoesOn(&[]) => {
        // The state in which another thread is making the heap: the limit is set, the window not
        // yet.
        let limit = &sheaves_percpu::internal::TABLE.heap_bytes_end;
        limit.store(1 << 39, core::sync::atomic::Ordering::Relaxed);
        // SAFETY: null may be freed at any time.
        unsafe { free(core::ptr::null_mut()) };
    }
    locked_memory_is_zeroed NONE, GoesOn(&[]) => {
        let block = malloc(256 << 10);
        // SAFETY: the block is ours.
        unsafe { block.write_bytes(0xAA, 256 << 10) };
        // SAFETY: locking changes no contents; where it is refused, the case tests nothing.
        let _ = unsafe { libc::mlock(block.cast(), 4096) };
        // SAFETY: from this heap.
        unsafe { free(block) };
        trim(0);
        let again = calloc(1, 256 << 10);
        assert_eq!(again, block);
        // SAFETY: the block has that many bytes, and `calloc` has written them all.
        let bytes = unsafe { core::slice::from_raw_parts(again, 256 << 10) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }
    realloc_of_a_foreign_address NONE, Dies("realloc of 0x123456780, which is not from") => {
        // SAFETY: bad input on purpose.
        let _ = unsafe { realloc(with_exposed_provenance_mut(0x1_2345_6780), 100) };
    }
    usable_size_of_a_foreign_address NONE, Dies("which is not from this heap") => {
        // SAFETY: bad input on purpose.
        let _ = unsafe { usable_size(with_exposed_provenance_mut(0x1_2345_6780)) };
    }
    inside_an_object NONE, Dies("which is not the start of an object of cache malloc-112") => {
        free_inside(100, 16);
        trim(0);
    }
    inside_an_object_odd NONE, Dies("which is not the start of an object of cache malloc-112") => {
        free_inside(100, 1);
    }
    inside_an_object_debug DEBUG, Dies("is not the start of a block") => {
        free_inside(100, 32);
    }
    inside_a_middle_block NONE, Dies("which is not the start of an object of cache malloc-") => {
        free_inside(200_000, 64 << 10);
        trim(0);
    }
    inside_a_middle_block_first_page NONE, Dies("which is not the start of an object") => {
        free_inside(200_000, 16);
        trim(0);
    }
    inside_a_large_block NONE, Dies("which is not from this heap") => {
        free_inside(4 << 20, 4096);
    }
    object_of_a_named_cache NONE, Dies("which belongs to a named cache") => {
        let object = cache("named", false).alloc().unwrap();
        // SAFETY: bad input on purpose.
        unsafe { free(object.as_ptr()) };
    }
    object_of_another_cache NONE, Dies("which is not of cache second") => {
        let (first, second) = (cache("first", false), cache("second", false));
        // SAFETY: bad input on purpose.
        unsafe { second.free(first.alloc().unwrap()) };
        second.shrink();
    }
    object_of_another_cache_debug NONE, Dies("which is not of cache second") => {
        let (first, second) = (cache("first", false), cache("second", true));
        // SAFETY: bad input on purpose.
        unsafe { second.free(first.alloc().unwrap()) };
    }
    inside_an_object_of_a_cache NONE, Dies("which is not the start of an object of cache it") => {
        let cache = cache("it", false);
        // SAFETY: inside the object.
        let inside = unsafe { cache.alloc().unwrap().add(8) };
        // SAFETY: bad input on purpose.
        unsafe { cache.free(inside) };
        cache.shrink();
    }
    /// The object is not in use, so the error is detected only when the object returns to its slab.
    twice NONE, Dies("double free in cache malloc-48") => {
        free_twice(40);
        trim(0);
    }
    twice_middle NONE, Dies("which is in free memory (double free?)") => {
        free_twice(100_000);
    }
    twice_middle_often NONE, Dies("double free in cache malloc-") => {
        // Until its class has sheaves.
        for _ in 0..10_000 {
            // SAFETY: from this heap.
            unsafe { free(malloc(100_000)) };
        }
        free_twice(100_000);
        trim(0);
    }
    twice_middle_beside_others NONE, Dies("double free in cache malloc-") => {
        free_twice(48_000);
    }
    twice_large NONE, Dies("which is not from this heap") => {
        free_twice(4 << 20);
    }
    twice_in_a_cache NONE, Dies("double free in cache twice") => {
        let cache = cache("twice", false);
        let object = cache.alloc().unwrap();
        for _ in 0..2 {
            // SAFETY: bad input on purpose the second time.
            unsafe { cache.free(object) };
        }
        cache.shrink();
    }
    twice_in_one_bulk NONE, Dies("double free in cache twice") => {
        let cache = cache("twice", false);
        let object = cache.alloc().unwrap();
        // SAFETY: bad input on purpose.
        unsafe { cache.free_bulk(&[object; 2]) };
        cache.shrink();
    }
    twice_debug DEBUG, Dies("which is in free memory (double free?)") => {
        free_twice(40);
    }
    twice_middle_debug DEBUG, Dies("which is in free memory (double free?)") => {
        free_twice(100_000);
    }
    twice_middle_beside_others_debug DEBUG, Dies("which is in free memory (double free?)") => {
        free_twice(48_000);
    }
    twice_large_debug DEBUG, Dies("which is in free memory (double free?)") => {
        free_twice(4 << 20);
    }
    twice_in_a_debug_cache NONE, Dies("double free in cache twice") => {
        let cache = cache("twice", true);
        let object = cache.alloc().unwrap();
        for _ in 0..2 {
            // SAFETY: bad input on purpose the second time.
            unsafe { cache.free(object) };
        }
    }
    past_the_end DEBUG, Dies("of 40 bytes was written to at byte 40, past its end") => {
        write_and_free(40, 40);
    }
    far_past_the_end DEBUG, Dies("of 40 bytes was written to at byte 55, past its end") => {
        write_and_free(40, 55);
    }
    past_the_end_middle DEBUG, Dies("was written to at byte 100001, past its end") => {
        write_and_free(100_001, 100_001);
    }
    past_the_end_large DEBUG, Dies("was written to at byte 3145730, past its end") => {
        write_and_free(3 << 20, (3 << 20) + 2);
    }
    past_the_end_seen_by_realloc DEBUG, Dies("was written to at byte 25, past its end") => {
        let block = calloc(5, 5);
        spoil(block, 25);
        // SAFETY: from this heap.
        let _ = unsafe { realloc(block, 30) };
    }
    before_the_start DEBUG, Dies("was written to before its start") => {
        write_and_free(40, -1);
    }
    before_the_start_size_word DEBUG, Dies("was written to before its start") => {
        write_and_free(40, -16);
    }
    before_the_start_middle DEBUG, Dies("was written to before its start") => {
        write_and_free(100_000, -9);
    }
    after_free DEBUG, Dies("was written to while it was free") => {
        let (_alive, block) = (malloc(40), malloc(40));
        // SAFETY: from this heap.
        unsafe { free(block) };
        spoil(block, 20);
        check_freed();
    }
    after_free_in_a_debug_cache NONE, Dies("was written to while it was free, at byte 47") => {
        let cache = cache("late", true);
        let (_kept, object) = (cache.alloc(), cache.alloc().unwrap());
        // SAFETY: from this cache.
        unsafe { cache.free(object) };
        spoil(object.as_ptr(), 47);
        // Out of the quarantine, into the slab.
        cache.shrink();
        let _ = cache.alloc();
    }
    /// The same calls without an error: debug mode must not report any.
    no_mistake DEBUG, GoesOn(&[]) => {
        let mut blocks = Vec::new();
        for size in (0..2000).chain([40_000, 100_000, 3 << 20]) {
            let block = NonNull::new(malloc(size)).unwrap();
            // SAFETY: the block has that many bytes.
            unsafe { block.write_bytes(0x55, size) };
            blocks.push(block);
        }
        for block in blocks {
            // SAFETY: from this heap, each once.
            unsafe { free(block.as_ptr()) };
        }
    }
}
