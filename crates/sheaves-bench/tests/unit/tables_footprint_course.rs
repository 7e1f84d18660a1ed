//! Tests of `src/tables/footprint/course.rs`.

use super::*;
use crate::contenders::allocators::glibc::Glibc;

fn course(kind: Kind) -> Course {
    let ms = Duration::from_millis;
    Course { kind, bytes: 8 * MIB, between: ms(1), quiet: [ms(1), ms(2)] }
}

#[test]
fn all_courses_keep_what_they_say() {
    let kinds = [
        (Kind::All { has_second_thread: false }, 0.0),
        (Kind::All { has_second_thread: true }, 0.0),
        (Kind::Tenth, 0.1),
        (Kind::Foreign, 0.0),
        (Kind::Bursts, 0.0),
        (Kind::Day, 0.2),
        (Kind::Fork, 0.0),
    ];
    for (kind, kept) in kinds {
        let course = course(kind);
        let program = Program::new(course, Arc::new(Glibc)).unwrap();
        let room = || program.sets.iter().map(|set| own(set).room()).collect::<Vec<_>>();
        let before = room();
        let forked = program.run().unwrap();
        assert_eq!(room(), before, "the addresses of {kind:?} have moved");
        assert_eq!(forked.is_some(), kind == Kind::Fork);
        let mut bytes = 0.0;
        for set in program.sets.iter() {
            let mut blocks = own(set);
            bytes += blocks.bytes() as f64;
            blocks.free_all_but(0);
        }
        let share = bytes / course.bytes as f64;
        assert!((share - kept).abs() < 0.01, "{kind:?} keeps {share}");
    }
}

#[test]
fn memory_is_read_before_and_after_the_frees() {
    let mut sampler = course(Kind::Tenth).sampler(Glibc).unwrap();
    let values = sampler.sample().unwrap();
    assert_eq!(values.len(), 6);
    // Other tests allocate at the same time.
    assert!(values[0] >= values[1], "{values:?}");
    assert!(values[4].is_finite() && values[5] > 0.0, "{values:?}");
}
