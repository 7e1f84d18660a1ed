//! Constructor and destructor of the object: reads the options, greets, prints statistics and
//! writes a heap profile at exit.

use core::cell::UnsafeCell;
use core::ffi::CStr;

use sheaves_heap::profile;
use sheaves_heap::report::{self, Format};
use sheaves_heap::{check_freed, leaks, mode};
use sheaves_sys::lock::Lock;
use sheaves_sys::{env, process};

const PATH_BYTES: usize = 4096;

/// What the destructor needs; written when the object is loaded.
struct AtExit {
    /// The format of the statistics, if they are printed.
    format: Option<Format>,
    /// The process in which the object was loaded: its children by `fork` print nothing.
    process: i32,
    /// A duplicate of the original standard error: many programs close theirs before they end.
    stderr: i32,
    /// The path for the statistics, as a C string; empty for standard error.
    path: [u8; PATH_BYTES],
}

static AT_EXIT: Lock<AtExit> =
    Lock::new(AtExit { format: None, process: 0, stderr: 2, path: [0; PATH_BYTES] });

/// Reads the options, and greets if it is asked to. Runs before `main`, in one thread.
fn load() {
    const WORDS: &[(&str, Option<Format>)] = &[
        ("1", Some(Format::Text)),
        ("text", Some(Format::Text)),
        ("json", Some(Format::Json)),
        ("0", None),
        ("", None),
    ];
    mode::start();
    if mode::is_hardened() {
        crate::cxx::check_sizes();
    }
    let mut at_exit = AT_EXIT.lock();
    at_exit.format = env::choice("SHEAVES_STATS", WORDS).flatten();
    if at_exit.format.is_some() || mode::is_debug() {
        at_exit.stderr = process::duplicate(2);
    }
    at_exit.process = process::id();
    read_path("SHEAVES_STATS_FILE", &mut at_exit.path);
    drop(at_exit);
    // SAFETY: no other thread uses it yet.
    read_path("SHEAVES_PROF_FILE", unsafe { &mut *PROFILE_PATH.0.get() });
    if let Some(path) = profile_path() {
        profile::dump_when_short(path);
    }
    if let Some(fd) = env::number("SHEAVES_HELLO_FD", 0, i32::MAX as usize) {
        env::remove(c"SHEAVES_HELLO_FD");
        crate::hello::say(fd as i32);
    }
}

fn read_path(name: &str, place: &mut [u8; PATH_BYTES]) {
    env::lookup(name, |path| {
        if path.len() < PATH_BYTES {
            place[..path.len()].copy_from_slice(path);
        }
    });
}

/// Where heap profiles are written, as a C string; empty for nowhere.
struct ProfilePath(UnsafeCell<[u8; PATH_BYTES]>);
// SAFETY: written by `load` alone, before there is a second thread.
unsafe impl Sync for ProfilePath {}
static PROFILE_PATH: ProfilePath = ProfilePath(UnsafeCell::new([0; PATH_BYTES]));

fn profile_path() -> Option<&'static CStr> {
    // SAFETY: not written any more.
    let path = CStr::from_bytes_until_nul(unsafe { &*PROFILE_PATH.0.get() }).ok()?;
    (!path.is_empty()).then_some(path)
}

/// Checks what was freed, in a hardened process, and reports leaks, in debug mode. Prints
/// statistics and writes a heap profile if options ask for them.
extern "C" fn unload() {
    if mode::is_hardened() {
        check_freed();
    }
    let at_exit = AT_EXIT.lock();
    if at_exit.process != process::id() {
        return;
    }
    if let Some(path) = profile_path() {
        profile::dump_to_file(path);
    }
    if mode::is_debug() {
        leaks::report_to(at_exit.stderr);
    }
    let Some(format) = at_exit.format else { return };
    let path = CStr::from_bytes_until_nul(&at_exit.path).unwrap_or_default();
    if path.is_empty() {
        report::print(at_exit.stderr, format);
        return;
    }
    match process::open_append(path) {
        Some(fd) => {
            report::print(fd, format);
            process::close(fd);
        }
        None => sheaves_sys::report::report(format_args!(
            "cannot write statistics to {}: check that the folder exists and is writable",
            path.to_str().unwrap_or("the file named by SHEAVES_STATS_FILE")
        )),
    }
}

sheaves_sys::run_when_loaded!(load());

#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOAD: extern "C" fn() = unload;
