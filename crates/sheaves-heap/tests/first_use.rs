//! State before and soon after the first use. The only test of its program, so that nothing has
//! been used.

use core::time::Duration;
use std::time::Instant;

use sheaves_sys::fork::{Layer, handlers_of};

/// A layer that registers with the fork registry during its own start could leave its locks held in
/// a child. And most processes end before memory can have been unused for a period.
#[test]
fn every_layer_is_registered_for_forks_before_its_first_use_and_soon_after_there_is_no_tick() {
    for layer in [Layer::PerCpu, Layer::Readers, Layer::Slab, Layer::Heap] {
        assert!(handlers_of(layer as usize).is_some(), "{layer:?}");
    }
    let begin = Instant::now();
    for bytes in 1..3000 {
        let blocks: Vec<_> = (0..20).map(|_| sheaves_heap::malloc(bytes)).collect();
        // SAFETY: from this heap, not used after.
        blocks.into_iter().for_each(|block| unsafe { sheaves_heap::free(block) });
    }
    let looks = sheaves_rcu::defer::statistics().keeper_looks;
    let period = Duration::from_millis(sheaves_rcu::internal::keeper::period_ms().unwrap());
    assert!(looks == 0 || begin.elapsed() >= period, "{looks} in {:?}", begin.elapsed());
}
