//! Tests of `src/tables/worst/beside.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::contenders::allocators::library::Malloc;

fn check<A: Allocator>(allocator: A, measured: Measured) {
    let mut sampler = Beside { bytes: 8 << 20, measured }.sampler(allocator).unwrap();
    let values = sampler.sample().unwrap();
    let [longest_beside, .., longest_without, _, _, median] = values[..] else { unreachable!() };
    assert_eq!(values.len(), 2 * crate::tables::worst::MEASURES.len());
    if measured == Measured::Fork {
        assert!(longest_without >= median && median > 0.0, "{values:?}");
    }
    // A short trim may be over before the first call beside it has ended.
    assert!(longest_beside.is_nan() || longest_beside > 0.0, "{values:?}");
}

#[test]
fn malloc_and_fork_are_timed_beside_a_trim_and_without() {
    for measured in [Measured::Malloc, Measured::Fork] {
        check(Glibc, measured);
        check(Malloc, measured);
    }
}

/// Takes its time to trim.
struct Slow;

impl Allocator for Slow {
    fn alloc(&self, size: usize) -> *mut u8 {
        Glibc.alloc(size)
    }

    unsafe fn free(&self, object: *mut u8, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { Glibc.free(object, size) };
    }

    fn trim(&self) -> bool {
        std::thread::sleep(Duration::from_millis(50));
        true
    }
}

#[test]
fn calls_are_timed_for_as_long_as_the_trim_takes() {
    let trim = Trim::default();
    let figures = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let begin = Clock::Wall.now();
            let figures = measure_malloc(&Slow, 1, &trim);
            (figures, Clock::Wall.now() - begin)
        });
        trim.run(&Slow);
        other.join().unwrap()
    });
    let (Ok(figures), time) = figures else { panic!("{figures:?}") };
    assert!(figures.iter().flatten().all(|figure| figure.is_nan() || *figure > 0.0));
    assert!(trim.time() >= Duration::from_millis(50) && time >= 2 * trim.time(), "{time:?}");
}
