//! The program as a child process: start with the signal mask of our caller, wait, reap.
//!
//! `std::process::Command` would pass our own mask on, in which the forwarded signals are blocked.
//! So the start is done here, by `posix_spawn`.

use alloc::ffi::CString;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};

/// The program to start.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// The file.
    pub(crate) path: &'a Path,
    /// The arguments; the first is the name that the program sees.
    pub(crate) arguments: Vec<&'a OsStr>,
    /// Variables that are set on top of our own environment.
    pub(crate) variables: Vec<(&'static str, OsString)>,
}

/// A program that is running, or has ended and is not reaped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Child(Pid);

impl Start<'_> {
    /// Starts the program with `mask` as its signal mask.
    pub(crate) fn spawn(&self, mask: &SigSet) -> io::Result<Child> {
        let mut attributes = PosixSpawnAttr::init()?;
        attributes.set_flags(
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF,
        )?;
        attributes.set_sigmask(mask)?;
        // The Rust runtime ignores SIGPIPE; programs expect its default action.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        let actions = PosixSpawnFileActions::init()?;
        let arguments: Vec<CString> =
            self.arguments.iter().map(|argument| c_string(argument)).collect::<io::Result<_>>()?;
        let variables = self.environment()?;
        let pid = posix_spawn(self.path, &actions, &attributes, &arguments, &variables)?;
        Pid::from_raw(pid.as_raw()).map(Child).ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Our environment; the variables of the start replace those of the same name.
    fn environment(&self) -> io::Result<Vec<CString>> {
        let set = |name: &OsStr| self.variables.iter().any(|(ours, _)| *ours == name);
        let kept = env::vars_os().filter(|(name, _)| !set(name));
        let ours = self.variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
        kept.chain(ours)
            .map(|(mut entry, value)| {
                entry.push("=");
                entry.push(value);
                c_string(&entry)
            })
            .collect()
    }
}

impl Child {
    /// Its process id.
    pub(crate) fn id(self) -> u32 {
        self.0.as_raw_nonzero().get().cast_unsigned()
    }

    /// Waits for the end and returns the exit status that a shell would report. The process id
    /// stays allocated until [`Child::reap`], so that a late signal reaches no other process.
    pub(crate) fn wait(self) -> io::Result<u8> {
        let ended = loop {
            match waitid(WaitId::Pid(self.0), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Err(Errno::INTR) => {}
                result => break result?,
            }
        };
        let code = ended.and_then(|status| {
            status.exit_status().or_else(|| status.terminating_signal().map(|number| 128 + number))
        });
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }

    /// Frees the process id, as the last step before this process ends.
    pub(crate) fn reap(self) {
        // It has ended already, and a failure changes nothing.
        let _ = waitpid(Some(self.0), WaitOptions::NOHANG);
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
