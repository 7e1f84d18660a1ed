//! `errno`.

use sheaves_sys::errno::{get, preserve, set};

#[test]
fn preserve_restores() {
    set(7);
    preserve(|| set(9));
    assert_eq!(get(), 7);
}
