//! Tests of `src/dist/control.rs`.

use super::*;

#[test]
fn packages_of_the_cross_compiler_stand_for_those_of_the_architecture() {
    let printed = "libc6:arm64 (>= 2.36), libgcc-s1-arm64-cross (>= 4.2)";
    assert_eq!(without_marks(printed, Arch::aarch64), "libc6 (>= 2.36), libgcc-s1 (>= 4.2)");
}
