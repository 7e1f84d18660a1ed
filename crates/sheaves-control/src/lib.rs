//! Tools can ask a running process on Sheaves, which was not started for it.
//!
//! Each process has a *control page*, a file in memory that only its owner can open, by
//! `/proc/PID/fd`. A tool writes a request into it, and the process appends the answer, a text:
//!
//! | what answers | when |
//! |---|---|
//! | the reclaimer of `sheaves-rcu`, if it is there | at once: it sleeps on the page |
//! | otherwise a slow path, where it holds no lock | it starts the reclaimer, or answers |
//!
//! It costs nothing until a tool asks: the fast paths do not change, and slow paths read one word.
//!
//! The modules, from the bottom up: [`layout`] (the page, and the table of its states), [`client`]
//! (the side of a tool), `page` (the side of the process). Beside them, `exit` does what options
//! ask for when the process ends.
//!
//! A program calls nothing of it but, where a linker would leave it out, [`start`].
#![no_std]

pub mod client;
mod exit;
pub mod layout;
mod page;

use sheaves_sys::options;

/// Makes the control page, and arranges what options ask for at the end of the process. Done when
/// the object is loaded; calling it again changes nothing.
pub fn start() {
    page::start();
    exit::start();
    if options::PROF.asked().is_some() || options::GUARD.get() != 0 {
        sheaves_heap::profile::find_unwinder();
    }
}

sheaves_sys::run_when_loaded!(start());
