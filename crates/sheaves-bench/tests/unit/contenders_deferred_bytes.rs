//! Tests of `src/contenders/deferred_bytes.rs`.

use super::*;

#[test]
fn what_one_thread_defers_another_may_free() {
    let _lock = lock();
    let before = outstanding();
    add_deferred(100);
    assert_eq!(outstanding(), before + 100);
    std::thread::spawn(|| add_freed(60)).join().unwrap();
    assert_eq!(outstanding(), before + 40);
    add_freed(40);
    assert_eq!(outstanding(), before);
}
