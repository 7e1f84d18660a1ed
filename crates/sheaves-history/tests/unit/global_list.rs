//! Tests of `src/global_list.rs`.

use super::*;

/// # Safety
/// The object was a box.
unsafe fn end(object: NonNull<u64>) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(object.as_ptr()) });
}

#[test]
fn calls_are_made_in_the_end() {
    let list = GlobalList::<u64>::start().unwrap();
    for _ in 0..100 {
        let object = NonNull::from(Box::leak(Box::new(7)));
        // SAFETY: the box is not used any more, and the call takes it back.
        unsafe { list.defer(object, end) };
    }
}
