//! The greeting of the preload object: proof that it runs inside a program.
//!
//! `sheaves run` and `sheaves doctor` give the program the writing end of a pipe and set
//! `SHEAVES_HELLO_FD` to its number. The constructor of the preload object writes one line to it,
//! `sheaves VERSION engine=ENGINE slot=SLOT pid=PID`, closes it and removes the variable. If the
//! pipe closes without that line, the object was not loaded.

use core::str::FromStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, FdFlags, fcntl_setfd, read};
use rustix::pipe::{PipeFlags, pipe_with};

/// Names the descriptor to which the preload object writes its greeting.
pub(crate) const HELLO_VARIABLE: &str = "SHEAVES_HELLO_FD";

/// Longer than any valid greeting.
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
    /// The process that sent the greeting, as it sees itself.
    pub(crate) pid: u32,
}

impl FromStr for Hello {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("sheaves") {
            return Err(());
        }
        let version = words.next().ok_or(())?.to_owned();
        let (mut engine, mut slot, mut pid) = (None, None, None);
        for word in words {
            // Unknown words come from a newer preload object and are skipped.
            match word.split_once('=') {
                Some(("engine", value)) => engine = Some(value.to_owned()),
                Some(("slot", value)) => slot = Some(value.to_owned()),
                Some(("pid", value)) => pid = value.parse().ok(),
                _ => {}
            }
        }
        let (engine, slot) = (engine.ok_or(())?, slot.ok_or(())?);
        Ok(Self { version, engine, slot, pid: pid.ok_or(())? })
    }
}

/// How the wait for a greeting ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The line arrived.
    Greeted(Hello),
    /// Every process closed the pipe without a greeting, or sent something else.
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
        text.lines()
            .next()
            .and_then(|line| line.parse().ok())
            .map_or(Outcome::Closed, Outcome::Greeted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greeting_may_have_words_of_newer_versions() {
        let hello: Hello =
            "sheaves 0.1.0 engine=rseq slot=cid pid=42 node=0".parse().expect("a greeting");
        assert_eq!(hello.version, "0.1.0");
        assert_eq!((hello.engine.as_str(), hello.slot.as_str(), hello.pid), ("rseq", "cid", 42));
    }

    #[test]
    fn anything_else_is_not_a_greeting() {
        for line in ["", "sheaves", "hello 1 engine=a slot=b pid=1", "sheaves 1 engine=a pid=1"] {
            assert_eq!(line.parse::<Hello>(), Err(()), "{line:?}");
        }
    }

    #[test]
    fn closed_pipe_differs_from_silence() {
        let Pipe { reader, writer } = Pipe::open().expect("a pipe");
        let listener = Listener(reader);
        assert_eq!(listener.wait(0), Outcome::Silent);
        drop(writer);
        assert_eq!(listener.wait(1), Outcome::Closed);
    }
}
