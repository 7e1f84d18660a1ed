//! Tests of `src/harness/machine.rs`.

use super::*;

#[test]
fn files_of_the_kernel_are_understood() {
    assert_eq!(choice_of("always [madvise] never\n"), Some("madvise"));
    assert_eq!(choice_of("nonsense"), None);
    let info = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n";
    assert_eq!(model_of(info), Some("Some CPU @ 3 GHz"));
    assert_eq!(model_of(""), None);
}

#[test]
fn this_machine_has_a_cpu() {
    let machine = Machine::this();
    assert!(machine.cpus > 0 && !machine.kernel.contains('\n'));
    assert!(machine.to_string().contains(&machine.glibc));
}
