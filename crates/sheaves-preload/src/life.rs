//! The constructor of the object: prepares what depends on options, and greets.

use core::fmt::Write;

use sheaves_heap::{mode, report};
use sheaves_sys::report::Line;
use sheaves_sys::{object, options, process};

/// By this name other copies of the library in the process find this one, see
/// [`object::is_beside_preload`].
#[allow(non_upper_case_globals, reason = "a symbol of the object")]
#[unsafe(no_mangle)]
pub(crate) static sheaves_preload_copy: &u8 = &object::COPY;

/// Runs before `main`, in one thread.
fn load() {
    mode::start();
    if mode::is_hardened() {
        crate::cxx::check_sizes();
    }
    if let Some(fd) = options::HELLO_FD.asked() {
        options::remove(c"SHEAVES_HELLO_FD");
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

sheaves_sys::run_when_loaded!(load());
