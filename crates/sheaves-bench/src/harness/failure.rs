//! What can go wrong in a run, as one line and an exit status.

use std::io::Write as _;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One line, without the program's name and without a full stop.
    pub(crate) message: String,
    /// 2 when the command line is at fault, 1 otherwise.
    pub(crate) status: u8,
}

impl Failure {
    /// The command line asks for something that does not exist.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 2 }
    }

    /// The command line was right, but the run could not be done.
    pub(crate) fn run(message: impl Into<String>) -> Failure {
        Failure { message: message.into(), status: 1 }
    }

    pub(crate) fn no_thread(error: std::io::Error) -> Failure {
        Failure::run(format!("cannot start a thread: {error}"))
    }
}

/// Ends the program: a contender has no memory left, and a figure taken so is worth nothing.
#[cold]
#[inline(never)]
pub(crate) fn out_of_memory() -> ! {
    end("a contender ran out of memory")
}

/// Ends the program: a contender does not take back what it handed out.
#[cold]
#[inline(never)]
pub(crate) fn refused_free() -> ! {
    end("a contender refused an object of its own")
}

fn end(message: &str) -> ! {
    say(message);
    std::process::exit(1)
}

/// Prints a line to stderr, if that takes it: the exit status says that something is wrong.
pub(crate) fn say(message: &str) {
    let _ = writeln!(std::io::stderr().lock(), "sheaves-bench: {message}");
}
