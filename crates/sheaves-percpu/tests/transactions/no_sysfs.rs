//! A process without `/sys`, as in a chroot or a sandbox.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use sheaves_percpu::internal::{Mode, mode};
use sheaves_percpu::slot_count;
use sheaves_sys::topology::CPUS_MAX;

/// Set in the process without `/sys`.
const PROCESS: &str = "SHEAVES_TEST_NO_SYSFS";
/// Seconds until an alarm ends a process that hangs.
const ALARM_SECONDS: u32 = 20;

/// Mounts an empty file system on `/sys`, for the calling process and its children.
fn hide_sysfs() -> io::Result<()> {
    let check = |status| if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: integers only.
    let own_mounts = || check(unsafe { libc::unshare(libc::CLONE_NEWNS) });
    // SAFETY: integers only.
    let own_user = || check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) });
    own_mounts().or_else(|_| own_user())?;
    let mount = |what: &core::ffi::CStr, place: &core::ffi::CStr, flags| {
        let (what, place) = (what.as_ptr(), place.as_ptr());
        // SAFETY: C strings, and no data.
        check(unsafe { libc::mount(what, place, what, flags, core::ptr::null()) })
    };
    mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)?;
    mount(c"tmpfs", c"/sys", 0)
}

/// Bits of the kernel's affinity masks: the raw system call returns their size in bytes.
fn mask_bits() -> usize {
    let mut mask = [0_u8; CPUS_MAX / 8];
    let (number, bytes) = (libc::SYS_sched_getaffinity, mask.len());
    // SAFETY: the mask is valid for writes of its size.
    let used = unsafe { libc::syscall(number, 0, bytes, mask.as_mut_ptr()) };
    usize::try_from(used).expect("a size") * 8
}

/// There are no more slots than the kernel's affinity masks have bits.
#[test]
fn slots_are_bounded_without_sysfs() {
    if env::var_os(PROCESS).is_some() {
        assert_ne!(mode(), Mode::NotStarted);
        assert!(std::fs::metadata("/sys/devices").is_err());
        assert!(slot_count() <= mask_bits(), "{} slots", slot_count());
        return;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "no_sysfs::slots_are_bounded_without_sysfs", "--test-threads=1"]);
    command.env(PROCESS, "1").env_remove("SHEAVES_SLOTS");
    let prepare = || {
        // SAFETY: integers only. The alarm outlives exec.
        unsafe { libc::alarm(ALARM_SECONDS) };
        hide_sysfs()
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(prepare) };
    match command.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains("1 passed"), "{text}{output:?}");
        }
        Err(error) => println!("skipped: no mount namespaces here: {error}"),
    }
}
