//! Constructor and destructor of the object: reads the options, greets, prints statistics at exit.

use core::ffi::CStr;
use core::fmt::Write;
use core::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use sheaves_heap::report::{self, Format};
use sheaves_sys::lock::Lock;
use sheaves_sys::report::Line;
use sheaves_sys::{env, process};

const SILENT: u8 = 0;
const TEXT: u8 = 1;
const JSON: u8 = 2;

/// What to print at exit.
static STATS: AtomicU8 = AtomicU8::new(SILENT);
/// The process in which the object was loaded: its children by `fork` print nothing.
static LOADED_IN: AtomicI32 = AtomicI32::new(0);

/// A duplicate of the original standard error: many programs close theirs before they end.
static STDERR: AtomicI32 = AtomicI32::new(2);

const PATH_BYTES: usize = 4096;
/// The path for the statistics, as a C string; empty for standard error.
static STATS_FILE: Lock<[u8; PATH_BYTES]> = Lock::new([0; PATH_BYTES]);

/// Reads the options and greets `sheaves run`. Runs before `main`, in one thread.
fn load() {
    const WORDS: &[(&str, u8)] =
        &[("1", TEXT), ("text", TEXT), ("json", JSON), ("0", SILENT), ("", SILENT)];
    let stats = env::choice("SHEAVES_STATS", WORDS).unwrap_or(SILENT);
    if stats != SILENT {
        // Relaxed, all: the process has one thread, and the exit handler runs later in program
        // order.
        STDERR.store(process::duplicate(2), Ordering::Relaxed);
    }
    STATS.store(stats, Ordering::Relaxed);
    LOADED_IN.store(process::id(), Ordering::Relaxed);
    env::lookup("SHEAVES_STATS_FILE", |path| {
        if path.len() < PATH_BYTES {
            STATS_FILE.lock()[..path.len()].copy_from_slice(path);
        }
    });
    if let Some(fd) = env::number("SHEAVES_HELLO_FD", 0, i32::MAX as usize) {
        env::remove(c"SHEAVES_HELLO_FD");
        say_hello(fd as i32);
    }
}

/// Tells `sheaves run` that the preload took effect.
fn say_hello(fd: i32) {
    // Through the exported symbol, so that the engine is started and the preload is really tested.
    // SAFETY: a fresh block, freed once.
    unsafe { crate::c::free(core::hint::black_box(crate::c::malloc(1))) };
    let (engine, slot) = report::engine_names();
    let (version, pid) = (env!("CARGO_PKG_VERSION"), process::id());
    let mut line = Line::new();
    let _ = writeln!(line, "sheaves {version} engine={engine} slot={slot} pid={pid}");
    line.flush_to(fd);
    process::close(fd);
}

/// Prints statistics if an option asks for them.
extern "C" fn unload() {
    // Relaxed, both: written before `main`.
    let format = match STATS.load(Ordering::Relaxed) {
        TEXT => Format::Text,
        JSON => Format::Json,
        _ => return,
    };
    if LOADED_IN.load(Ordering::Relaxed) != process::id() {
        return;
    }
    let path = STATS_FILE.lock();
    let path = CStr::from_bytes_until_nul(&*path).unwrap_or_default();
    if path.is_empty() {
        // Relaxed: as above.
        report::print(STDERR.load(Ordering::Relaxed), format);
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
