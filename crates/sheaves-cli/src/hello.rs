//! The greeting of the preload object: proof that it runs inside a program.
//!
//! `SHEAVES_HELLO_FD` has the number of a descriptor. The constructor of the preload object writes
//! one line to it, and removes the variable:
//!
//! `sheaves: NAME runs on Sheaves VERSION (engine ENGINE, slots by SLOT, pid PID)`
//!
//! or, where `malloc` and `free` are not those of the object, a line that says whose they are.
//! `sheaves run --verbose` names standard error. `sheaves doctor` names the writing end of a pipe,
//! which the object closes: if that happens without a line, the object was not loaded.

use core::str::FromStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd, read};
use rustix::pipe::{PipeFlags, pipe_with};

/// Names the descriptor to which the preload object writes its greeting.
pub(crate) const HELLO_VARIABLE: &str = "SHEAVES_HELLO_FD";
/// Its value for a greeting that the user sees.
pub(crate) const GREET_ON_STDERR: &str = "2";

/// Longer than any greeting.
const LINE_BYTES_MAX: usize = 512;

/// What the preload object said about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hello {
    /// Version of the preload object.
    pub(crate) version: String,
    /// `rseq` or `portable`.
    pub(crate) engine: String,
    /// Where slot numbers come from: `cid`, `cpu` or `virtual`.
    pub(crate) slot: String,
}

impl FromStr for Hello {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (_, said) = line.rsplit_once(" runs on Sheaves ").ok_or(())?;
        let (version, facts) = said.split_once(" (").ok_or(())?;
        let (facts, _) = facts.split_once(')').ok_or(())?;
        // Unknown facts come from a newer preload object and are skipped.
        let fact = |name: &str| facts.split(", ").find_map(|fact| fact.strip_prefix(name));
        let (engine, slot) = (fact("engine ").ok_or(())?, fact("slots by ").ok_or(())?);
        Ok(Self { version: version.to_owned(), engine: engine.to_owned(), slot: slot.to_owned() })
    }
}

/// How the wait for a greeting ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The line arrived.
    Greeted(Hello),
    /// Another line arrived: the object is loaded, and something is wrong.
    Other(String),
    /// Every process closed the pipe without a line.
    Closed,
    /// No greeting arrived in time.
    Silent,
}

/// Both ends of the pipe, before the program starts.
#[derive(Debug)]
pub(crate) struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
}

/// The reading end, once the program has the other.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

impl Pipe {
    /// Makes the pipe. Any program that is started before [`Pipe::listen`] inherits the writing
    /// end, so start exactly one.
    pub(crate) fn open() -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfd(&writer, FdFlags::empty())?;
        Ok(Self { reader, writer })
    }

    /// The value of [`HELLO_VARIABLE`] for the program.
    pub(crate) fn number(&self) -> String {
        self.writer.as_raw_fd().to_string()
    }

    /// Closes our copy of the writing end: from then on only the program keeps the pipe open.
    pub(crate) fn listen(self) -> Listener {
        drop(self.writer);
        Listener(self.reader)
    }
}

impl Listener {
    /// Waits until the greeting is complete, the pipe is closed, or nothing has arrived for
    /// `seconds`.
    pub(crate) fn wait(&self, seconds: u32) -> Outcome {
        let timeout = Timespec { tv_sec: i64::from(seconds), tv_nsec: 0 };
        let mut line = Vec::new();
        while line.len() < LINE_BYTES_MAX && !line.contains(&b'\n') {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
                Ok(0) => return Outcome::Silent,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => {}
            }
            let mut bytes = [0_u8; LINE_BYTES_MAX];
            match read(&self.0, &mut bytes[..]) {
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => break,
                Ok(count) => line.extend_from_slice(&bytes[..count]),
            }
        }
        let text = String::from_utf8_lossy(&line);
        match text.lines().next() {
            None => Outcome::Closed,
            Some(line) => line.parse().map_or(Outcome::Other(line.to_owned()), Outcome::Greeted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greeting_may_have_facts_of_newer_versions() {
        let hello: Hello = "sheaves: a runs on Sheaves b runs on Sheaves 0.1.0 (node 0, engine \
                            rseq, slots by cid, pid 42), and more"
            .parse()
            .expect("a greeting");
        assert_eq!(hello.version, "0.1.0");
        assert_eq!((hello.engine.as_str(), hello.slot.as_str()), ("rseq", "cid"));
    }

    #[test]
    fn anything_else_is_not_a_greeting() {
        for line in [
            "",
            "sheaves",
            "sheaves: a does not run on Sheaves 1 (engine a, slots by b, pid 1)",
            "sheaves: a runs on Sheaves 1 (engine a, pid 1)",
            "sheaves: a runs on Sheaves 1 (engine a, slots by b, pid 1",
        ] {
            assert_eq!(line.parse::<Hello>(), Err(()), "{line:?}");
        }
    }

    #[test]
    fn closed_pipe_differs_from_silence() {
        let Pipe { reader, writer } = Pipe::open().expect("a pipe");
        let listener = Listener(reader);
        assert_eq!(listener.wait(0), Outcome::Silent);
        let line = "sheaves: a does not run on Sheaves 1; malloc is that of a";
        rustix::io::write(&writer, format!("{line}\n").as_bytes()).expect("written");
        assert_eq!(listener.wait(1), Outcome::Other(line.to_owned()));
        drop(writer);
        assert_eq!(listener.wait(1), Outcome::Closed);
    }
}
