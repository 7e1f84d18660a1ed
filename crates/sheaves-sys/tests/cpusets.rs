//! `fence_slowly` in a thread to which membarrier is refused and whose cpuset excludes CPUs that
//! other threads may run on: it must fail.

use std::fs;
use std::path::Path;

use sheaves_sys::{membarrier, thread};

#[path = "../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

/// A cpuset of one CPU, below the cpuset of this process. Removed when dropped.
struct Set(String);

impl Set {
    /// `None` where the system has no cpusets, or does not permit to make one.
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
            // The process has only this CPU.
            return None;
        }
        let memory = copy("cpuset.effective_mems")?;
        fs::write(format!("{}/cpuset.mems", set.0), memory).ok()?;
        fs::write(format!("{}/cpuset.cpus", set.0), one).ok()?;
        Some(set)
    }

    /// Moves the calling thread into the cpuset.
    fn enter(&self) -> std::io::Result<()> {
        fs::write(format!("{}/tasks", self.0), thread::id().to_string())
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        // A thread that has just ended may still be listed for a moment.
        for _ in 0..1000 {
            if fs::remove_dir(Path::new(&self.0)).is_ok() {
                return;
            }
            thread::sleep_ns(1_000_000);
        }
    }
}

/// The result of `body` in a thread to which membarrier is refused. `None` where filters are not
/// permitted.
fn refused(body: impl FnOnce() -> Option<bool> + Send) -> Option<bool> {
    let program = seccomp::program(&[libc::SYS_membarrier], libc::EPERM);
    let run = || seccomp::install(&program).ok().and_then(|()| body());
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn fence_slowly_fails_in_a_smaller_cpuset() {
    let Some(set) = Set::make() else {
        println!("skipped: cannot make a cpuset");
        return;
    };
    let told = refused(|| {
        assert!(!membarrier::fence());
        // Outside of the cpuset, where the thread may run on all CPUs of the process.
        let is_fenced = membarrier::fence_slowly();
        set.enter().ok()?;
        assert!(!membarrier::fence_slowly(), "other threads may use other CPUs");
        Some(is_fenced)
    });
    match told {
        Some(is_fenced) => println!("outside of the cpuset: {is_fenced}"),
        None => println!("skipped: seccomp filters or cpusets are not permitted here"),
    }
}
