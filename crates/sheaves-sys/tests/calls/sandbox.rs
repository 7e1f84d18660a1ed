//! `sandbox`.

use sheaves_sys::sandbox::*;

const STRICT: usize = libc::SECCOMP_SET_MODE_STRICT as usize;
const FILTER: usize = libc::SECCOMP_SET_MODE_FILTER as usize;
const MODE_STRICT: usize = libc::SECCOMP_MODE_STRICT as usize;
const MODE_FILTER: usize = libc::SECCOMP_MODE_FILTER as usize;
const SOME: usize = 4096;

#[test]
fn calls_that_enter_a_sandbox_are_known() {
    for arguments in [[STRICT, 0, 0], [FILTER, 0, SOME], [FILTER, 1, SOME]] {
        assert!(is_entered_by_syscall(SYS_SECCOMP, arguments), "{arguments:?}");
    }
    for (mode, filter) in [(MODE_STRICT, 0), (MODE_STRICT, SOME), (MODE_FILTER, SOME)] {
        let arguments = [PR_SET_SECCOMP as usize, mode, filter];
        assert!(is_entered_by_prctl(PR_SET_SECCOMP, mode, filter), "{arguments:?}");
        assert!(is_entered_by_syscall(SYS_PRCTL, arguments), "{arguments:?}");
    }
}

/// What libseccomp asks before it has a filter.
#[test]
fn questions_about_the_kernel_enter_no_sandbox() {
    let available = libc::SECCOMP_GET_ACTION_AVAIL as usize;
    let calls = [[STRICT, 1, 0], [STRICT, 0, SOME], [FILTER, 1, 0], [available, 0, SOME]];
    for arguments in calls {
        assert!(!is_entered_by_syscall(SYS_SECCOMP, arguments), "{arguments:?}");
    }
    assert!(!is_entered_by_prctl(PR_SET_SECCOMP, MODE_FILTER, 0));
    assert!(!is_entered_by_prctl(libc::PR_GET_SECCOMP, MODE_FILTER, SOME));
    assert!(!is_entered_by_syscall(libc::SYS_getpid as i32, [FILTER, 1, SOME]));
}
