//! The pool of guarded blocks: its mappings, the order of its slots, forks.

use core::alloc::Layout;
use std::collections::{HashSet, VecDeque};

use sheaves_heap::malloc::free_rcu_layout;
use sheaves_heap::{alloc_layout, dealloc_layout, free, free_rcu, malloc};
use sheaves_slab::internal::trap::contains;
use sheaves_slab::internal::trap::layout::PLACES;

use crate::{cases, guard_all, guarded, passed, read, write};

/// The addresses and the number of the mappings that are in the pool, of which `inside` is an
/// address.
fn mappings(inside: usize) -> usize {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let is_of_pool = |line: &&str| {
        let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        contains(number(start)) || contains(number(end) - 1)
    };
    assert!(contains(inside));
    text.lines().filter(is_of_pool).count()
}

/// A guarded block for each slot, of different sizes.
fn fill() -> Vec<*mut u8> {
    (0..PLACES).map(|index| guarded(1 + index * 37 % 20_000)).collect()
}

fn wait_until_slots_are_rested() {
    let start = std::time::Instant::now();
    while start.elapsed().as_millis() < 30 {
        core::hint::spin_loop();
    }
}

fn few_mappings() {
    guard_all();
    let mut blocks: VecDeque<_> = fill().into();
    assert_eq!(blocks.iter().collect::<HashSet<_>>().len(), PLACES);
    let most = mappings(blocks[0].addr());
    assert!(most <= 600, "{most}");
    // In a child the kernel merges less than in the process that has made the mappings.
    // SAFETY: the child uses the heap, ends without returning, and no other thread has locks.
    let child = unsafe { libc::fork() };
    for round in 0..2000 {
        let block = blocks.swap_remove_back(round * 31 % PLACES).unwrap();
        write(block);
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
        if round % 16 == 0 {
            wait_until_slots_are_rested();
        }
        blocks.push_back(guarded_or_none(1 + round * 91 % 30_000));
        if round % 50 == 0 {
            let count =
                mappings(blocks.iter().find(|block| contains(block.addr())).unwrap().addr());
            assert!(count <= 600, "{count}");
        }
    }
    if child == 0 {
        std::process::exit(0);
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "in the child");
}

/// A guarded block if a slot is free, otherwise another one.
fn guarded_or_none(bytes: usize) -> *mut u8 {
    let tries = (0..2000).map(|_| malloc(bytes));
    let mut last: *mut u8 = core::ptr::null_mut();
    for block in tries {
        if !last.is_null() {
            // SAFETY: from this heap, and not used after.
            unsafe { free(last) };
        }
        last = block;
        if contains(block.addr()) {
            break;
        }
    }
    last
}

/// The number of the slot of a block.
fn slot(block: *mut u8) -> usize {
    let page = block.addr() / 4096;
    let base = (0..=page).rev().take_while(|page| contains(page * 4096)).last().unwrap();
    (page - base) / 9
}

fn oldest_first() {
    guard_all();
    // Never the same page for two blocks of one slot, and in another order than they came in.
    let mut blocks: Vec<_> = (0..PLACES).map(|_| guarded(20_000)).collect();
    blocks.sort_by_key(|block| block.addr().wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let freed: Vec<_> = blocks.iter().map(|block| slot(*block)).collect();
    for block in blocks {
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
    }
    wait_until_slots_are_rested();
    let taken: Vec<_> = (0..PLACES).map(|_| slot(guarded(20_000))).collect();
    assert_eq!(freed, taken);
    // One more has no slot.
    assert!(!contains(guarded_or_none(20_000).addr()));
}

fn forks() {
    guard_all();
    for _ in 0..100 {
        let block = guarded(500);
        let deferred = guarded(500);
        // SAFETY: from this heap; there are no readers.
        unsafe { free_rcu(deferred) };
        // SAFETY: the child ends without returning.
        let child = unsafe { libc::fork() };
        write(block);
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
        sheaves_rcu::defer::barrier().unwrap();
        for _ in 0..10 {
            let block = guarded_or_none(700);
            write(block);
            // SAFETY: from this heap, and not used after.
            unsafe { free(block) };
        }
        if child == 0 {
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "in the child");
    }
}

fn threads() {
    guard_all();
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            scope.spawn(move || {
                for round in 0..20_000_usize {
                    let block = malloc(1 + (round * 97 + thread * 13) % 9000);
                    write(block);
                    if round % 7 == 0 {
                        // SAFETY: from this heap, and not used after.
                        unsafe { free_rcu(block) };
                    } else {
                        // SAFETY: as above.
                        unsafe { free(block) };
                    }
                }
            });
        }
    });
    sheaves_rcu::defer::barrier().unwrap();
    wait_until_slots_are_rested();
    // All slots are free again.
    assert!(fill().iter().all(|block| contains(block.addr())));
}

/// Blocks that are freed by their layout, which is a push of their address.
fn layouts() {
    guard_all();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            scope.spawn(move || {
                let mut blocks = VecDeque::new();
                for round in 0..40_000_usize {
                    let bytes = 1 + (round * 97 + thread * 13) % 9000;
                    let layout = Layout::from_size_align(bytes, 16).unwrap();
                    let block = alloc_layout(layout);
                    let mark = (round % 251) as u8;
                    // SAFETY: the block has as many bytes, here and below.
                    unsafe { block.write_bytes(mark, bytes) };
                    blocks.push_back((block, layout, mark));
                    if blocks.len() > 50 {
                        let (block, layout, mark) = blocks.pop_front().unwrap();
                        let (first, last) = (block, block.wrapping_add(layout.size() - 1));
                        assert_eq!((read(first), read(last)), (mark, mark));
                        if round % 7 == 0 {
                            // SAFETY: from this heap, with this layout, and not used after.
                            unsafe { free_rcu_layout(block, layout) };
                        } else {
                            // SAFETY: as above.
                            unsafe { dealloc_layout(block, layout) };
                        }
                    }
                }
            });
        }
    });
    sheaves_rcu::defer::barrier().unwrap();
}

/// Where the kernel has no room for another mapping, blocks are not guarded.
fn without_mappings() {
    guard_all();
    let few: Vec<_> = (0..20).map(|_| guarded(5000)).collect();
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    if limit.trim().parse::<usize>().unwrap() > 300_000 {
        println!("skipped: a process may have {limit} mappings, too many to try");
        return;
    }
    let bytes = 1 << 34;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, which replaces nothing.
    let place = unsafe { libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    for offset in (4096..bytes).step_by(2 * 4096) {
        let page = place.wrapping_byte_add(offset);
        // SAFETY: a page of the mapping, which is not used.
        if unsafe { libc::mprotect(page, 4096, libc::PROT_READ) } != 0 {
            break;
        }
    }
    let others: Vec<_> = (0..50).map(|_| malloc(5000)).collect();
    for block in few.iter().chain(&others) {
        (0..5000).for_each(|byte| write(block.wrapping_add(byte)));
        // SAFETY: from this heap, and not used after.
        unsafe { free(*block) };
    }
    // SAFETY: mapped above.
    assert_eq!(unsafe { libc::munmap(place, bytes) }, 0);
    wait_until_slots_are_rested();
    write(guarded(5000));
}

cases! {
    the_pool_has_few_mappings [], |output| assert_eq!(passed(output), "") => few_mappings();
    the_slot_that_was_freed_first_is_taken_first [], |output| assert_eq!(passed(output), "") =>
        oldest_first();
    children_have_the_pool [], |output| assert_eq!(passed(output), "") => forks();
    blocks_with_layouts_have_one_owner [], |output| assert_eq!(passed(output), "") => layouts();
    blocks_are_not_guarded_without_mappings [], |output| assert_eq!(passed(output), "") =>
        without_mappings();
    threads_share_the_pool [], |output| assert_eq!(passed(output), "") => threads();
}
