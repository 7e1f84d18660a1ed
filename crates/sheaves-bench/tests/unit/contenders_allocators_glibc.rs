//! Tests of `src/contenders/allocators/glibc.rs`.

use super::*;

#[test]
fn file_names_are_told_apart() {
    assert!(is_glibc("/lib/x86_64-linux-gnu/libc.so.6"));
    assert!(is_glibc("/lib64/libc-2.31.so"));
    assert!(!is_glibc("/usr/lib/libjemalloc.so.2"));
    assert!(!is_glibc("target/release/sheaves-bench"));
}
