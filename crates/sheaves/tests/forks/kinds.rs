//! Ways to fork.

use core::ffi::CStr;
use core::mem::transmute;
use std::env;

use crate::foreign;

/// How a child is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `fork()`.
    Fork,
    /// `fork()` in a program whose own handlers allocate, before and after ours.
    Foreign,
    /// `_Fork()`, which runs no handlers.
    Bare,
    /// `clone(SIGCHLD)`, which libc does not know of.
    Clone,
    /// `fork()` in a signal handler of a program with one thread.
    Handler,
}

const ALL: [(&str, Kind); 5] = [
    ("fork", Kind::Fork),
    ("foreign", Kind::Foreign),
    ("bare", Kind::Bare),
    ("clone", Kind::Clone),
    ("handler", Kind::Handler),
];

/// The kinds that run by default.
const DEFAULT: &str = "fork,foreign,bare,clone,handler";

/// The kinds that an environment variable selects.
pub(crate) fn asked(variable: &str) -> Vec<Kind> {
    let text = env::var(variable).unwrap_or_else(|_| DEFAULT.to_string());
    let kind_of = |word: &str| ALL.iter().find(|(name, _)| *name == word).expect("a kind").1;
    text.split(',').map(kind_of).collect()
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// True when libc knows of the fork, so that the child may have threads.
    pub(crate) fn has_handlers(self) -> bool {
        !matches!(self, Kind::Bare | Kind::Clone)
    }

    /// Forks; returns the process id of the child, and 0 in the child.
    pub(crate) fn fork(self) -> i32 {
        match self {
            Kind::Fork | Kind::Handler => {
                // SAFETY: the test checks that the child may continue.
                unsafe { libc::fork() }
            }
            Kind::Foreign => foreign::beside(|| {
                // SAFETY: as above.
                unsafe { libc::fork() }
            }),
            Kind::Bare => bare(),
            Kind::Clone => {
                let null = core::ptr::null_mut::<u8>();
                // SAFETY: as above: the child has a copy of the stack.
                unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, null, null, null, 0) as i32 }
            }
        }
    }
}

/// `_Fork`, where libc has it; `fork` elsewhere.
fn bare() -> i32 {
    const NAME: &CStr = c"_Fork";
    // SAFETY: looks a name up.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if address.is_null() {
        return Kind::Fork.fork();
    }
    // SAFETY: `_Fork` is of this type.
    let fork = unsafe { transmute::<*mut libc::c_void, extern "C" fn() -> i32>(address) };
    fork()
}
