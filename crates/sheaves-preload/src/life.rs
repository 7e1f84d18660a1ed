//! The constructor of the object: prepares what depends on options, and greets where one asks for
//! that: a line says on which engine the program runs, or whose `malloc` it uses. The command
//! `sheaves` reads its form.

use core::ffi::CStr;
use core::fmt;
use core::hint::black_box;

use sheaves_heap::{checking, report};
use sheaves_sys::{object, options, process};

/// By this name other copies of the library in the process find this one, see
/// [`object::is_beside_preload`].
#[allow(non_upper_case_globals, reason = "a symbol of the object")]
#[unsafe(no_mangle)]
pub(crate) static sheaves_preload_copy: &u8 = &object::COPY;

/// Runs before `main`, in one thread.
fn load() {
    checking::start();
    let _known = crate::cxx::is_new_replaced();
    if checking::is_hardened() {
        crate::cxx::check_sizes();
    }
    if options::STATS.word() == "start" {
        // So that the engine is started, and the heap is really tested.
        // SAFETY: a fresh block, freed once.
        unsafe { crate::c::free(black_box(crate::c::malloc(1))) };
        sheaves_sys::report::report(format_args!("{}", fmt::from_fn(write_greeting)));
    }
}

sheaves_sys::run_when_loaded!(load());

fn write_greeting(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (engine, slot) = report::engine_names();
    let (name, pid) = (last_part(process::program()), process::id());
    let (malloc, free) = (owner(c"malloc"), owner(c"free"));
    let does = if malloc.or(free).is_none() { "runs" } else { "does not run" };
    write!(f, "{name} {does} on Sheaves {} ", env!("CARGO_PKG_VERSION"))?;
    write!(f, "(engine {engine}, slots by {slot}, pid {pid})")?;
    // A program may replace `operator new`: then it runs on Sheaves, but for what that gives out.
    for (function, owner) in [("malloc", malloc), ("free", free), ("operator new", owner(c"_Znwm"))]
    {
        if let Some(owner) = owner {
            write!(f, "; {function} is that of {owner}")?;
        }
    }
    Ok(())
}

/// The object from which the program takes a function, if it is not this one.
fn owner(function: &CStr) -> Option<&'static str> {
    let found = object::foreign_symbol(function)?;
    Some(last_part(object::object_name(found)))
}

/// The name of a file without its folder.
fn last_part(path: Option<&'static CStr>) -> &'static str {
    let path = path.and_then(|path| path.to_str().ok()).unwrap_or("the program");
    path.rsplit('/').next().unwrap_or(path)
}
