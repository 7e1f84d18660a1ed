//! Tests of `src/tables/large/mod.rs`.

use super::pages::PAGE_BYTES;
use super::*;
use crate::contenders::allocators::glibc::Glibc;
use crate::harness::report::Report;

fn names() -> Vec<String> {
    let sizes = TABLE.sizes.as_ref().unwrap().full.to_vec();
    let cases = cases(&Options { sizes, threads: 2, few: false, quick: false });
    cases.iter().map(|case| case.name().to_owned()).collect()
}

#[test]
fn rows_are_named_by_work_and_size() {
    let names = names();
    for name in ["untouched/32", "touched/65536", "batch/1024", "replace-2t/16384", "grow"] {
        assert!(names.contains(&format!("large/{name}")), "{name} is missing in {names:?}");
    }
}

#[test]
fn rows_of_many_live_blocks_are_there_unless_sizes_are_asked_for() {
    let has_alive = |sizes: &[usize]| {
        let options = Options { sizes: sizes.to_vec(), threads: 2, few: false, quick: false };
        cases(&options).iter().any(|case| case.name().starts_with("large/alive-"))
    };
    assert!(has_alive(SIZES.full) && has_alive(SIZES.quick) && !has_alive(&[32]));
}

#[test]
fn blocks_that_live_at_once_are_bounded() {
    let live =
        |kib: usize, threads| Blocks { work: Work::Replace, bytes: kib << 10, threads }.live();
    assert_eq!([live(32, 1), live(16_384, 1), live(65_536, 1), live(65_536, 2)], [16, 16, 4, 2]);
}

#[test]
fn what_a_block_held_is_there_when_it_has_grown() {
    let bytes = [1_usize, 2, 4, 8].map(|times| times * PAGE_BYTES);
    let mut block = Glibc.alloc(bytes[0]);
    write_pages(block, 0..bytes[0]);
    for bytes in &bytes[1..] {
        // SAFETY: the block is live, and the old address is forgotten.
        block = unsafe { Glibc.realloc(block, *bytes) };
        write_pages(block, bytes / 2..*bytes);
    }
    for page in 0..8 {
        // SAFETY: in the block, and written.
        assert_eq!(unsafe { block.wrapping_add(page * PAGE_BYTES).read() }, 14);
    }
    // SAFETY: allocated above and freed once.
    unsafe { Glibc.free(block, 0) };
}

#[test]
fn the_mean_is_that_of_the_judged_rows() {
    let mut report = Report::new("large");
    for (ratio, at_most) in [(0.5, Some(1.1)), (2.0, Some(1.1)), (9.0, None)] {
        report.bars.push(Judgement::new("large/batch/32", "malloc", "glibc", ratio, at_most));
    }
    let alive = ["large/alive-1t/1-8-whole", "large-resident/alive-1t/1-8-whole"];
    for name in alive {
        report.bars.push(Judgement::new(name, "malloc", "glibc", 9.0, Some(1.0)));
    }
    finish(&mut report);
    let mean = report.bars.last().unwrap();
    assert_eq!((mean.workload.as_str(), mean.verdict.as_deref()), ("large/mean", Some("MISS")));
    assert!((mean.ratio - 1.0).abs() < 1e-9);
}
