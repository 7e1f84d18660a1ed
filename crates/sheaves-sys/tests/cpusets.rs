//! A fence in the other threads where membarrier is refused, and a thread is in a set of processors
//! of its own: it cannot visit those of the others.

use std::fs;
use std::path::Path;

use sheaves_sys::{membarrier, thread};

#[path = "../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

/// A set of one processor, below the one of this process. Removed in the end.
struct Set(String);

impl Set {
    /// `None` where there are no such sets, or none can be made.
    fn make() -> Option<Set> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let group = groups.lines().find_map(|line| line.split_once(":cpuset:"))?.1;
        let parent = format!("/sys/fs/cgroup/cpuset{}", group.trim_end_matches('/'));
        let set = Set(format!("{parent}/sheaves-{}", std::process::id()));
        fs::create_dir(&set.0).ok()?;
        let copy = |name: &str| fs::read_to_string(format!("{parent}/{name}")).ok();
        let cpus = copy("cpuset.effective_cpus")?;
        let one = cpus.trim().split([',', '-']).next()?;
        if one == cpus.trim() {
            // There is only this one.
            return None;
        }
        let memory = copy("cpuset.effective_mems")?;
        fs::write(format!("{}/cpuset.mems", set.0), memory).ok()?;
        fs::write(format!("{}/cpuset.cpus", set.0), one).ok()?;
        Some(set)
    }

    /// Puts the calling thread there.
    fn enter(&self) -> std::io::Result<()> {
        fs::write(format!("{}/tasks", self.0), thread::id().to_string())
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // A thread that has just ended may be there for a moment.
        for _ in 0..1000 {
            if fs::remove_dir(Path::new(&self.0)).is_ok() {
                return;
            }
            thread::sleep_ns(1_000_000);
        }
    }
}

/// What `body` says in a thread to which membarrier is refused. `None` where that is not possible.
fn refused(body: impl FnOnce() -> Option<bool> + Send) -> Option<bool> {
    let program = seccomp::program(&[libc::SYS_membarrier], libc::EPERM);
    let run = || seccomp::install(&program).ok().and_then(|()| body());
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn whoever_may_not_visit_all_processors_says_so() {
    let Some(set) = Set::make() else {
        println!("skipped: no set of processors can be made here");
        return;
    };
    let told = refused(|| {
        assert!(!membarrier::fence());
        // Outside of the set, where all processors are to be had.
        let is_fenced = membarrier::fence_slowly();
        set.enter().ok()?;
        assert!(!membarrier::fence_slowly(), "the others may run where this one may not");
        Some(is_fenced)
    });
    match told {
        Some(is_fenced) => println!("outside of the set: {is_fenced}"),
        None => println!("skipped: filters or sets are not permitted here"),
    }
}
