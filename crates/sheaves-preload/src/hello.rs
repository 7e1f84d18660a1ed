//! The greeting: a line that says on which engine the program runs, or whose `malloc` it uses. The
//! command `sheaves` asks for it by `SHEAVES_HELLO_FD`, and reads its form.

use core::ffi::CStr;
use core::fmt::Write;
use core::hint::black_box;

use sheaves_heap::report;
use sheaves_sys::process;
use sheaves_sys::report::Line;

/// Writes the greeting to `fd`, and closes that unless it is a standard descriptor. Called when the
/// object is loaded.
pub(crate) fn say(fd: i32) {
    // So that the engine is started, and the heap is really tested.
    // SAFETY: a fresh block, freed once.
    unsafe { crate::c::free(black_box(crate::c::malloc(1))) };
    let (engine, slot) = report::engine_names();
    let (name, pid) = (last_part(process::program()), process::id());
    let (malloc, free) = (owner(c"malloc"), owner(c"free"));
    let does = if malloc.or(free).is_none() { "runs" } else { "does not run" };
    let mut line = Line::new();
    // A line takes everything.
    let _ = write!(line, "sheaves: {name} {does} on Sheaves {} ", env!("CARGO_PKG_VERSION"));
    let _ = write!(line, "(engine {engine}, slots by {slot}, pid {pid})");
    // A program may replace `operator new`: then it runs on Sheaves, but for what that gives out.
    for (function, owner) in [("malloc", malloc), ("free", free), ("operator new", owner(c"_Znwm"))]
    {
        if let Some(owner) = owner {
            let _ = write!(line, "; {function} is that of {owner}");
        }
    }
    let _ = writeln!(line);
    line.flush_to(fd);
    if fd > 2 {
        process::close(fd);
    }
}

/// The object from which the program takes a function, if it is not this one.
fn owner(function: &CStr) -> Option<&'static str> {
    static HERE: u8 = 0;
    let found = process::first_symbol(function);
    // Where the first one is a stub of the program, it jumps to ours, which is the next.
    if found.is_null() || process::is_same_object(found, (&raw const HERE).cast()) {
        return None;
    }
    Some(last_part(process::object_name(found)))
}

/// The name of a file without its folder.
fn last_part(path: Option<&'static CStr>) -> &'static str {
    let path = path.and_then(|path| path.to_str().ok()).unwrap_or("the program");
    path.rsplit('/').next().unwrap_or(path)
}
