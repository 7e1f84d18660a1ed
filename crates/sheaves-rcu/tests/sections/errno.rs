//! `errno` is preserved, also where the kernel refuses a system call.

use sheaves_rcu::{Cookie, read, statistics, synchronize};

use crate::configurations::{in_own_process, seccomp};

fn set(value: i32) {
    // SAFETY: the calling thread's own variable.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = value };
}

fn get() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

/// Refuses membarrier to this thread and to those that it starts. False if filters are not
/// permitted.
fn refuse_membarrier() -> bool {
    let installed = seccomp::install(&seccomp::program(&[libc::SYS_membarrier], libc::EPERM));
    if let Err(error) = &installed {
        println!("skipped: filters are not permitted here: {error}");
    }
    installed.is_ok()
}

fn use_everything() {
    set(77);
    drop(read());
    assert_eq!(get(), Some(77));
    let _ = Cookie::start_poll_expedited().poll();
    assert_eq!(get(), Some(77));
    synchronize().unwrap();
    assert_eq!(get(), Some(77));
}

#[test]
fn a_filter_that_comes_later_keeps_errno() {
    if in_own_process("errno::a_filter_that_comes_later_keeps_errno") {
        return;
    }
    use_everything();
    let before = statistics();
    if refuse_membarrier() {
        use_everything();
        assert_eq!(statistics().readers_fence, before.readers_fence);
    }
}
