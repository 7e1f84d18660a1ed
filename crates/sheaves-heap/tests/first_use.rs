//! What must be so before the first use. The only test of its program, so that nothing was used.

use sheaves_sys::fork::{Layer, is_announced};

/// A layer that became known to forks while it starts would hold its locks in a child for ever.
#[test]
fn every_layer_takes_part_in_forks_before_its_first_use() {
    for layer in [Layer::PerCpu, Layer::Rcu, Layer::Slab, Layer::Heap] {
        assert!(is_announced(layer), "{layer:?}");
    }
    let block = sheaves_heap::malloc(1);
    // SAFETY: from this heap, not used after.
    unsafe { sheaves_heap::free(block) };
}
