//! The constructor of the object: prepares what depends on options, and greets.

use sheaves_heap::mode;
use sheaves_sys::{object, options};

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
        crate::hello::say(fd as i32);
    }
}

sheaves_sys::run_when_loaded!(load());
