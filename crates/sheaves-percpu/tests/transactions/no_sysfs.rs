//! A process without `/sys`, as in a chroot or a sandbox, or whose `/sys` shows fewer CPUs than
//! there are, as in some containers.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, EngineMode, Word, mode, pop_slow, push_slow};
use sheaves_percpu::{Counter, PerCpu, SlotCell, slot_count};
use sheaves_sys::topology::{Affinity, CPUS_MAX};

use crate::numbers::{cmp_store, drain, load};
use crate::sheaves::Sheaf;

/// Set in the processes of these tests.
const PROCESS: &str = "SHEAVES_TEST_NO_SYSFS";
/// Seconds until an alarm ends a process that hangs.
const ALARM_SECONDS: u32 = 20;

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts an empty file system on `/sys`, for the calling process and its children.
fn hide_sysfs() -> io::Result<()> {
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

/// In an empty `/sys`, lists one possible CPU.
fn list_one_cpu() -> io::Result<()> {
    for folder in [c"/sys/devices", c"/sys/devices/system", c"/sys/devices/system/cpu"] {
        // SAFETY: a C string.
        check(unsafe { libc::mkdir(folder.as_ptr(), 0o755) })?;
    }
    let (path, flags) = (c"/sys/devices/system/cpu/possible", libc::O_WRONLY | libc::O_CREAT);
    // SAFETY: a C string.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o644) };
    // SAFETY: two bytes.
    let written = unsafe { libc::write(file, c"0\n".as_ptr().cast(), 2) };
    if written == 2 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs a test of this program again, after `prepare` in its process. Prints a line where that is
/// not permitted.
fn run_again(test: &str, prepare: fn() -> io::Result<()>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--test-threads=1"]);
    command.env(PROCESS, "1").env_remove("SHEAVES_SLOTS");
    let prepare = move || {
        // SAFETY: integers only. The alarm outlives exec.
        unsafe { libc::alarm(ALARM_SECONDS) };
        prepare()
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

/// There are no more slots than the kernel's affinity masks have bits.
#[test]
fn slots_are_bounded_without_sysfs() {
    if env::var_os(PROCESS).is_none() {
        run_again("no_sysfs::slots_are_bounded_without_sysfs", hide_sysfs);
        return;
    }
    assert_ne!(mode(), EngineMode::NotStarted);
    assert!(std::fs::metadata("/sys/devices").is_err());
    assert!(slot_count() <= mask_bits(), "{} slots", slot_count());
}

/// CPUs that this process may use, whatever `/sys` says.
fn cpus() -> Vec<usize> {
    let is_allowed = |cpu: &usize| Affinity::only(*cpu).is_some_and(|only| only.bind());
    (0..mask_bits()).filter(is_allowed).collect()
}

/// Uses each of the CPUs, all at a time.
fn use_all(cpus: &[usize]) {
    let (counter, value) = (Counter::new(), PerCpu::<SlotCell<u64>>::zeroed().unwrap());
    for round in 0..50 {
        std::thread::scope(|scope| {
            for cpu in cpus {
                scope.spawn(|| {
                    assert!(Affinity::only(*cpu).unwrap().bind());
                    let word = Word::new(48);
                    let _ = attach();
                    let current = load(word);
                    let has_block = current != Cursor::BOOTSTRAP.bits();
                    // SAFETY: not the bootstrap cursor; the sheaf is new.
                    let _ = has_block && unsafe { cmp_store(word, current, Sheaf::make()) };
                    // SAFETY: objects are plain numbers here.
                    let _ = unsafe { push_slow(word, 2) };
                    let _ = pop_slow(word);
                    counter.add(1);
                    value.add(1);
                });
            }
        });
        let expected = (round + 1) * cpus.len();
        assert_eq!((counter.sum(), value.sum()), (expected as i64, expected as u64));
    }
    assert!(drain(&[Word::new(48)], &mut |_, _| ()));
}

#[test]
fn cpus_that_the_list_leaves_out_have_slots() {
    if env::var_os(PROCESS).is_none() {
        let prepare = || hide_sysfs().and_then(|()| list_one_cpu());
        run_again("no_sysfs::cpus_that_the_list_leaves_out_have_slots", prepare);
        return;
    }
    assert_eq!(std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap(), "0\n");
    let cpus = cpus();
    assert!(mode() == EngineMode::Portable || slot_count() > *cpus.last().unwrap());
    use_all(&cpus);
}

/// The list is right about the CPUs that the process may use at first.
#[test]
fn cpus_that_are_allowed_later_may_be_without_slots() {
    if env::var_os(PROCESS).is_none() {
        let prepare = || {
            let only = Affinity::only(0).ok_or(io::ErrorKind::Unsupported)?;
            hide_sysfs().and_then(|()| list_one_cpu())?;
            if only.bind() { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        run_again("no_sysfs::cpus_that_are_allowed_later_may_be_without_slots", prepare);
        return;
    }
    let cpus = cpus();
    println!("{} CPUs, {} slots", cpus.len(), slot_count());
    use_all(&cpus);
}
