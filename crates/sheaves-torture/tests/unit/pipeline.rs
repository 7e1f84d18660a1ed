//! Tests of `src/pipeline.rs`.

use super::*;

#[test]
fn items_are_used_again_after_ten_generations() {
    let pipeline = Pipeline::new();
    pipeline.reset();
    let seen = pipeline.find();
    let old = pipeline.replace().unwrap();
    assert_eq!((old.0, pipeline.age(seen)), (seen.0, 1));
    let grown = (0..GENERATIONS - 1).map(|_| pipeline.grow(old)).filter(|free| *free).count();
    assert_eq!((grown, pipeline.age(seen)), (1, GENERATIONS));
    let others = core::iter::from_fn(|| pipeline.replace()).count();
    assert_eq!(others, ITEMS - 1);
}
