//! Tests of `src/tables/mixed/lines.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::harness::judge::tests::verdicts;

fn names(bytes: Option<&[usize]>, is_quick: bool) -> Vec<String> {
    let cases = cases(bytes, is_quick);
    cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect()
}

#[test]
fn rows_are_named_by_course_and_bytes() {
    let all = names(None, false);
    assert_eq!(all.len(), 4 * SIZES.len() * MEASURES.len());
    for name in ["apart/16", "swapped/48", "migrating/128", "together/mix"] {
        for part in ["mixed", "mixed-ns"] {
            let name = format!("{part}/{name}");
            assert!(all.contains(&name), "{name} is missing in {all:?}");
        }
    }
    assert_eq!(names(None, true)[..4].join(" "), {
        "mixed/apart/16 mixed-ns/apart/16 mixed/apart/mix mixed-ns/apart/mix"
    });
    assert_eq!(names(Some(&[64, 5000]), true).len(), 4 * MEASURES.len());
    assert!(names(Some(&[5000]), false).is_empty());
}

#[test]
fn mixed_sizes_are_by_the_inverse_square() {
    let of = |bits: u32| Size::Mix.of(bits);
    assert_eq!([of(0), of(u32::MAX / 2), of(u32::MAX)], [4096, 8, 4]);
    let above_64 = MIX.iter().filter(|size| **size > 64).count();
    assert!((MIX.len() / 16).abs_diff(above_64) < 40, "{above_64}");
}

/// In this process each allocation takes its time; in its children none does.
struct SlowHere {
    process: u32,
}

impl Allocator for SlowHere {
    fn alloc(&self, size: usize) -> *mut u8 {
        if std::process::id() == self.process {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(500) {
                core::hint::spin_loop();
            }
        }
        Glibc.alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, size: usize) {
        // SAFETY: as the caller promises.
        unsafe { Glibc.free(object, size) };
    }
}

#[test]
fn threads_that_wait_for_something_take_longer_than_processes() {
    if allowed_cpus().len() < WORKERS {
        return;
    }
    for course in [Course::Apart, Course::Swapped, Course::Migrating, Course::Together] {
        let lines = Lines { course, size: Size::All(16) };
        let mut sampler = lines.sampler(SlowHere { process: std::process::id() }).unwrap();
        let values = sampler.sample().unwrap();
        // Without the wait it is about 1, with it several hundred; a call of one of the two threads
        // ends each 250 us at most.
        assert!(values[0] > 2.0 && values[1] > 200_000.0, "{course:?}: {values:?}");
    }
}

#[test]
fn both_sides_work_in_their_turn_only() {
    if allowed_cpus().len() < WORKERS {
        return;
    }
    let board = Mapping::new().unwrap();
    let mut done_by_others = Vec::new();
    std::thread::scope(|scope| {
        for side in [Side::Threads, Side::Processes] {
            let board = &board;
            scope.spawn(move || work(&Glibc, board, (side, 0), Size::Mix));
        }
        for (turn, other) in [(Side::Threads, Side::Processes), (Side::Processes, Side::Threads)] {
            board.give_turn(turn);
            let before = board.done(turn);
            let wait_for = |batches| {
                while board.done(turn) < before + batches * BATCH {
                    std::thread::yield_now();
                }
            };
            // The other side may end what it has begun.
            wait_for(100);
            let idle = board.done(other);
            wait_for(200);
            done_by_others.push(board.done(other) - idle);
        }
        board.end();
    });
    assert!(done_by_others.iter().all(|done| *done <= BATCH), "{done_by_others:?}");
}

#[test]
fn threads_are_held_against_processes_and_their_time_against_peers() {
    let mut field = vec![("malloc", 1.1)];
    field.extend(allocators::UNSIZED.iter().map(|name| (*name, 1.0)));
    let judged = |measure, course| verdicts(&field, |row| compare(row, measure, course));
    assert_eq!(judged("", Course::Swapped), ["two processes MISS"]);
    assert_eq!(judged("", Course::Migrating), ["two processes PASS"]);
    if cfg!(feature = "peers") {
        assert_eq!(judged("-ns", Course::Migrating), ["glibc MISS"]);
    } else {
        assert!(judged("-ns", Course::Migrating).is_empty());
    }
}
