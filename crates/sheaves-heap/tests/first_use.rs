//! State before the first use. The only test of its program, so that nothing has been used.

use sheaves_sys::fork::{Layer, is_announced};

/// A layer that registers with the fork registry during its own start could leave its locks held in
/// a child.
#[test]
fn every_layer_is_registered_for_forks_before_its_first_use() {
    for layer in [Layer::PerCpu, Layer::Readers, Layer::Slab, Layer::Heap] {
        assert!(is_announced(layer), "{layer:?}");
    }
    let block = sheaves_heap::malloc(1);
    // SAFETY: from this heap, not used after.
    unsafe { sheaves_heap::free(block) };
}
