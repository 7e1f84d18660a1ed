//! Tests of the locks that name no thread.

use sheaves_sys::fork;
use sheaves_sys::lock::bits::{begin, end, is_orphaned};

/// Runs `body` in a child of a fork; true if it returned true.
fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses only what is tested, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = i32::from(!body());
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = -1;
    // SAFETY: waits for the child only.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status == 0
}

/// In a child all locks of older generations are orphaned, but while the thread that forked may
/// hold one of them.
#[test]
fn locks_are_orphaned_where_their_owners_are_gone() {
    const MASK: usize = 0xFF;
    // SAFETY: this process waits for its children, whatever disposition it has inherited.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let first = fork::generation();
    assert!(!is_orphaned(first, MASK) && !is_orphaned(first + MASK + 1, MASK));
    assert!(in_child(|| is_orphaned(first, MASK) && !is_orphaned(first + 1, MASK)));
    let generations = [begin(), begin()];
    assert_eq!(generations, [first; 2]);
    let release_both = || {
        let before = is_orphaned(first, MASK);
        end();
        // A new one changes nothing.
        let is_new = begin() == first + 1;
        end();
        let between = is_orphaned(first, MASK);
        end();
        !before && is_new && !between && is_orphaned(first, MASK)
    };
    assert!(in_child(release_both));
    // The child of a child that another thread has forked.
    assert!(in_child(|| {
        let orphaned =
            move || in_child(|| is_orphaned(first, MASK) && is_orphaned(first + 1, MASK));
        std::thread::spawn(orphaned).join().unwrap() && !is_orphaned(first, MASK)
    }));
    end();
    end();
}
