//! What options ask for when the process ends: statistics, a heap profile, and what hardened and
//! debug mode find then.
//!
//! It is done for programs in Rust and in C that link the library, and under the preload object.
//! Where both are in a process, statistics and profile are those of the preload object, which has
//! the program's heap. Each checks what was freed to it. A copy that made no cache, and so has no
//! memory, says nothing.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use sheaves_heap::profile;
use sheaves_heap::report::{self, Format};
use sheaves_heap::{check_freed, checking, leaks};
use sheaves_slab::internal::sampling;
use sheaves_slab::stats;
use sheaves_sys::{object, options, process, sandbox};

/// The process in which the object was loaded: its children by `fork` say nothing.
#[unsafe(link_section = ".sheaves_load")]
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// A duplicate of the original standard error: many programs close theirs before they end.
static STDERR: AtomicI32 = AtomicI32::new(2);
/// Its file. Programs close all descriptors that they do not know, and get the number for another
/// file, which must not be written to.
static STDERR_FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
/// Statistics or a profile are asked for, of this copy of the library.
#[unsafe(link_section = ".sheaves_load")]
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Runs before `main`, in one thread. Later calls do nothing.
pub(crate) fn start() {
    options::read();
    // Relaxed, all: there is one thread the first time.
    if PROCESS.load(Ordering::Relaxed) != 0 {
        return;
    }
    PROCESS.store(process::id(), Ordering::Relaxed);
    let has_statistics = format().is_some();
    let profile = options::PROF_FILE.path();
    if has_statistics || profile.is_some() || options::DEBUG.is_on() {
        let file = process::file_of(2).unwrap_or_default();
        STDERR_FILE.iter().zip(file).for_each(|(word, is)| word.store(is, Ordering::Relaxed));
        STDERR.store(process::duplicate(2), Ordering::Relaxed);
    }
    if (has_statistics || profile.is_some()) && !object::is_beside_preload() {
        IS_ASKED.store(true, Ordering::Relaxed);
        if let Some(path) = profile {
            profile::dump_when_short(path);
        }
    }
}

extern "C" fn end() {
    if checking::is_hardened() {
        check_freed();
    }
    // Relaxed, here and below: constant since `start`.
    let is_asked = IS_ASKED.load(Ordering::Relaxed);
    // No system call where nothing is asked, and none in a sandbox.
    if !(is_asked || checking::is_debug()) || sandbox::is_entered() {
        return;
    }
    if PROCESS.load(Ordering::Relaxed) != process::id() || stats::all().next().is_none() {
        return;
    }
    let stderr = stderr();
    if let Some(path) = options::PROF_FILE.path().filter(|_| is_asked && sampling::was_on()) {
        profile::dump_to_file(path, stderr);
    }
    if checking::is_debug() {
        leaks::report_to(stderr);
    }
    if is_asked {
        print_statistics(stderr);
    }
}

/// A descriptor that still is the original standard error; -1, which takes nothing, if there is
/// none.
fn stderr() -> i32 {
    // Relaxed, all: constant since `start`.
    let file = [0, 1].map(|word: usize| STDERR_FILE[word].load(Ordering::Relaxed));
    let descriptors = [STDERR.load(Ordering::Relaxed), 2];
    descriptors.into_iter().find(|fd| process::file_of(*fd) == Some(file)).unwrap_or(-1)
}

fn format() -> Option<Format> {
    match options::STATS.word() {
        "1" => Some(Format::Text),
        "json" => Some(Format::Json),
        _ => None,
    }
}

fn print_statistics(stderr: i32) {
    let Some(format) = format() else { return };
    let Some(path) = options::STATS_FILE.path() else {
        // Where standard error takes nothing, there is no place to say so.
        report::print(stderr, format);
        return;
    };
    let is_written = process::open_append(path).is_some_and(|fd| {
        let status = report::print(fd, format);
        process::close(fd);
        status == 0
    });
    if !is_written {
        let path = path.to_str().unwrap_or("the file named by SHEAVES_STATS_FILE");
        let text = format_args!(
            "cannot write statistics to {path}: check that the folder exists, is writable and has \
             room"
        );
        sheaves_sys::report::report_to(stderr, text);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;
