//! Starts the program as a child, waits for the greeting, and returns the child's exit status.
//!
//! A child, not an `exec` of this process: this process reports that the preload did not take
//! effect. The child stays in our process group, so that the terminal treats both as one job.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use crate::command_line::StatsFormat;
use crate::hello::{HELLO_VARIABLE, Listener, Outcome, Pipe};
use crate::preload::{LIST_VARIABLE, Preload};
use crate::refusal::Refusal;
use crate::run::child::Start;
use crate::run::signals::Blocked;

/// The constructor greets within milliseconds; this leaves time for a machine that swaps.
const GREETING_SECONDS: u32 = 10;
/// Once the program has ended, its greeting is in the pipe or will never be.
const GREETING_GRACE: Duration = Duration::from_millis(200);

/// Everything that is known before the start.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    /// The object to preload.
    pub(crate) preload: &'a Preload,
    /// The program's name as typed, which becomes its `argv[0]`.
    pub(crate) name: &'a OsStr,
    /// The file that the name resolves to.
    pub(crate) path: &'a Path,
    /// Whether `/bin/sh` has to read the file.
    pub(crate) through_shell: bool,
    /// Its arguments.
    pub(crate) arguments: &'a [OsString],
    /// Whether and how statistics are printed at exit.
    pub(crate) stats: Option<StatsFormat>,
    /// The file for them; stderr if there is none.
    pub(crate) stats_file: Option<&'a Path>,
    /// Whether the program runs in hardened mode.
    pub(crate) harden: bool,
    /// Whether to report success, too.
    pub(crate) verbose: bool,
}

impl Launch<'_> {
    /// Runs the program to its end.
    pub(crate) fn run(&self) -> Result<ExitCode, Refusal> {
        let failed =
            |what: &str, error: io::Error| Refusal::own_failure(format!("cannot {what}: {error}"));
        let pipe = Pipe::open().map_err(|error| failed("make a pipe", error))?;
        let start = self.start(&pipe);
        // Block before the start: a signal that arrives before `forward_to` stays pending for it.
        let signals = Blocked::block().map_err(|error| failed("receive signals", error))?;
        let child = start.spawn(&signals.before).map_err(|error| self.spawn_refusal(&error))?;
        signals.forward_to(child).map_err(|error| failed("forward signals", error))?;
        let greeting = self.await_greeting(pipe.listen(), child.id());
        let status = child.wait().map_err(|error| failed("wait", error))?;
        greeting.finish();
        child.reap();
        Ok(ExitCode::from(status))
    }

    fn start(&self, pipe: &Pipe) -> Start<'_> {
        let (path, mut arguments) = if self.through_shell {
            (Path::new("/bin/sh"), vec![OsStr::new("sh"), self.path.as_os_str()])
        } else {
            (self.path, vec![self.name])
        };
        arguments.extend(self.arguments.iter().map(OsString::as_os_str));
        let list = self.preload.list(env::var_os(LIST_VARIABLE).as_deref());
        let mut variables = vec![(LIST_VARIABLE, list), (HELLO_VARIABLE, pipe.number().into())];
        if let Some(format) = self.stats {
            let value = match format {
                StatsFormat::Text => "1",
                StatsFormat::Json => "json",
            };
            variables.push(("SHEAVES_STATS", value.into()));
        }
        if self.harden {
            variables.push(("SHEAVES_HARDEN", "1".into()));
        }
        if let Some(path) = self.stats_file {
            variables.push(("SHEAVES_STATS_FILE", path.into()));
        }
        Start { path, arguments, variables }
    }

    fn spawn_refusal(&self, error: &io::Error) -> Refusal {
        let line = format!("{}: {error}", self.path.display());
        if error.kind() == ErrorKind::NotFound {
            Refusal::not_found(line)
        } else {
            Refusal::not_executable(line)
        }
    }

    /// Waits in a thread of its own, so that a missing preload is reported at startup, not at exit.
    fn await_greeting(&self, listener: Listener, pid: u32) -> Greeting {
        let said = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let name = self.path.display().to_string();
        let object = self.preload.path.display().to_string();
        let takes_over = self.preload.takes_over;
        let greeting = Greeting {
            failure: format!(
                "sheaves: the preload did not take effect in {name} ({})",
                if takes_over {
                    format!("the dynamic linker did not load {object}, or the program ended first")
                } else {
                    format!("{object} does not define malloc; name another with --preload")
                }
            ),
            said: Arc::clone(&said),
            receiver,
        };
        let (failure, verbose) = (greeting.failure.clone(), self.verbose);
        thread::spawn(move || {
            match listener.wait(GREETING_SECONDS) {
                Outcome::Greeted(hello) if hello.pid != pid => say_once(
                    &said,
                    &format!("{failure}; only its child process {} has it", hello.pid),
                ),
                Outcome::Greeted(hello) if verbose => eprintln!(
                    "sheaves: {name} runs on Sheaves {} (engine {}, slots by {}, pid {})",
                    hello.version, hello.engine, hello.slot, hello.pid
                ),
                Outcome::Greeted(_) => {}
                Outcome::Closed | Outcome::Silent => say_once(&said, &failure),
            }
            // The receiver is gone only when the command is about to end.
            let _ = sender.send(());
        });
        greeting
    }
}

/// The wait for the greeting, as seen by the thread that waits for the program.
#[derive(Debug)]
struct Greeting {
    failure: String,
    said: Arc<AtomicBool>,
    receiver: mpsc::Receiver<()>,
}

impl Greeting {
    /// Called after the end of the program. The pipe may still be open in a child of the program.
    fn finish(self) {
        if self.receiver.recv_timeout(GREETING_GRACE).is_err() {
            say_once(&self.said, &self.failure);
        }
    }
}

/// Both threads may notice the failure; one line is printed.
fn say_once(said: &AtomicBool, line: &str) {
    // Relaxed: no other data is published through the flag.
    if !said.swap(true, Ordering::Relaxed) {
        eprintln!("{line}");
    }
}
