//! Asks a running process by its control page: finds it, opens it, waits for the answer.
//!
//! Used by `stat`, `top`, `export` and `rcu`. Everything that is read from the process is checked:
//! it may end at any moment, and write anything into the page. What the process sees of it is a
//! request that it answers; nothing else in it is touched.
//!
//! A process may have Sheaves more than once, in the preload object and in a library or the program
//! itself. Each of them has a heap, and a control page.

pub(crate) mod answer;
pub(crate) mod process;
pub(crate) mod sample;

use alloc::rc::Rc;
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use sheaves_control::client::{Client, Failure};
use sheaves_control::layout::{ANSWER_AT, FILE_BYTES, LINK, STATISTICS};

use crate::refusal::Refusal;
use answer::Statistics;
use process::Process;

/// How long the command waits for an answer, and for another tool that asks.
const LIMIT: Duration = Duration::from_secs(5);

/// More pages than any process has.
const PAGES_MAX: usize = 8;
/// The object whose heap is that of `malloc`.
pub(crate) const PRELOAD: &str = "libsheaves_preload.so";

/// A process of which a control page is open.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What is known of it.
    pub(crate) process: Process,
    file: File,
    client: Client,
    pidfd: Rc<OwnedFd>,
    /// How long to wait for an answer.
    limit: Duration,
}

impl Asked {
    /// Finds and opens the control pages of a process: one for each heap, that of `malloc` first.
    pub(crate) fn attach(pid: u32) -> Result<Vec<Self>, Refusal> {
        let absent = || Refusal::no_process(format!("no process has the number {pid}"));
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(absent)?;
        // From here on the number stands for this process and no later one.
        let pidfd = Rc::new(pidfd_open(number, PidfdFlags::empty()).map_err(|_| absent())?);
        let process = Process::read(pid).ok_or_else(absent)?;
        let (mut all, mut failed) = (Vec::new(), None);
        for path in pages(&process)?.iter().take(PAGES_MAX) {
            match open(&process, path) {
                Ok(None) => {}
                Ok(Some((file, client))) => {
                    let (process, pidfd) = (process.clone(), Rc::clone(&pidfd));
                    all.push(Self { process, file, client, pidfd, limit: LIMIT });
                }
                Err(refusal) => failed = failed.or(Some(refusal)),
            }
        }
        if all.is_empty() {
            return Err(failed.unwrap_or_else(|| without_page(&process)));
        }
        // The program may have duplicated a descriptor.
        let file = |asked: &Self| asked.file.metadata().map(|file| file.ino()).ok();
        all.sort_by_key(file);
        all.dedup_by_key(|asked| file(asked));
        if all.len() > 1 {
            for Self { process, client, .. } in &mut all {
                let object = process.file_at(client.object());
                process.object = Some(object.unwrap_or_else(|| "another".to_owned()));
            }
            let key = |asked: &Self| asked.process.object.clone();
            all.sort_by_key(|asked| (key(asked).is_none_or(|name| name != PRELOAD), key(asked)));
        }
        Ok(all)
    }

    /// Tells each heap of a process the same. All must do it.
    pub(crate) fn tell(pid: u32, command: u32, argument: u64) -> Result<(), Refusal> {
        Self::attach(pid)?.iter_mut().try_for_each(|asked| asked.ask(command, argument).map(drop))
    }

    /// The same process, with less patience: one of many.
    pub(crate) fn hurried(self) -> Self {
        Self { limit: Duration::from_millis(200), ..self }
    }

    /// The answer to a command, as text.
    pub(crate) fn ask(&mut self, command: u32, argument: u64) -> Result<String, Refusal> {
        lock(&self.file, &self.process)?;
        let answer = self.ask_locked(command, argument);
        let _ = flock(&self.file, FlockOperation::Unlock);
        answer
    }

    fn ask_locked(&mut self, command: u32, argument: u64) -> Result<String, Refusal> {
        let (pidfd, limit_ms) = (&self.pidfd, self.limit.as_millis() as u64);
        let mut is_alive = || is_alive(pidfd);
        let number = self.process.own_number;
        let asked = self.client.ask(number, command, argument, limit_ms, &mut is_alive);
        let bytes = asked.map_err(|failure| refuse(&self.process, failure))?;
        let mut text = vec![0; bytes];
        let read = self.file.read_exact_at(&mut text, ANSWER_AT as u64);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let answer_bytes = (FILE_BYTES - ANSWER_AT) as u64;
        // The process keeps the memory of its answers otherwise; the answer is there all the same.
        let _ = fallocate(&self.file, hole, ANSWER_AT as u64, answer_bytes);
        let damaged = || refuse(&self.process, Failure::Damaged);
        read.map_err(|_| damaged())?;
        String::from_utf8(text).map_err(|_| damaged())
    }

    /// The answer to a command that is answered in JSON.
    pub(crate) fn ask_json<T: DeserializeOwned>(
        &mut self,
        command: u32,
        argument: u64,
    ) -> Result<T, Refusal> {
        let text = self.ask(command, argument)?;
        serde_json::from_str(&text).map_err(|_| refuse(&self.process, Failure::Damaged))
    }

    /// Its statistics.
    pub(crate) fn statistics(&mut self) -> Result<Statistics, Refusal> {
        self.ask_json(STATISTICS, 0)
    }
}

/// Asks each heap of a process. Those that do not answer are named on stderr, unless none answers.
pub(crate) fn each<T>(
    pid: u32,
    ask: impl FnMut(Asked) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let (answers, refusals) = answers(Asked::attach(pid)?, ask)?;
    refusals.iter().for_each(|refusal| eprintln!("sheaves: {}", refusal.line));
    Ok(answers)
}

/// The answers, and the refusals of those that do not answer, unless none answers.
pub(crate) fn answers<A, T>(
    all: impl IntoIterator<Item = A>,
    ask: impl FnMut(A) -> Result<T, Refusal>,
) -> Result<(Vec<T>, Vec<Refusal>), Refusal> {
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    for answer in all.into_iter().map(ask) {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if answers.is_empty() && !refusals.is_empty() {
        return Err(refusals.swap_remove(0));
    }
    Ok((answers, refusals))
}

/// True until the process ends.
fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut ends = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut ends, Some(&Timespec::default())).is_ok_and(|count| count == 0)
}

/// The control pages that a process has open.
fn pages(process: &Process) -> Result<Vec<PathBuf>, Refusal> {
    let refused = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => refuse(process, Failure::Gone),
        _ if process.has_ended() => refuse(process, Failure::Gone),
        _ => Refusal::not_permitted(format!(
            "{process} cannot be looked into: ask as its user, or as root ({error})"
        )),
    };
    let entries = fs::read_dir(process.path("fd")).map_err(refused)?;
    let paths = entries.flatten().map(|entry| entry.path());
    let open: Vec<_> =
        paths.filter(|path| fs::read_link(path).is_ok_and(|link| link == *LINK)).collect();
    // Programs close descriptors that they do not know. What is mapped can be opened by root.
    Ok(if open.is_empty() { process.mapped(LINK) } else { open })
}

/// Opens a control page; `None` if it is closed meanwhile.
fn open(process: &Process, path: &PathBuf) -> Result<Option<(File, Client)>, Refusal> {
    let damaged = || refuse(process, Failure::Damaged);
    let file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if !path.starts_with(process.path("fd")) => return Ok(None),
        Err(error) => {
            let line = format!("the control page of {process} cannot be opened: {error}");
            return Err(Refusal::not_permitted(line));
        }
    };
    // A program that has started as root, and become another user, made it as root.
    let owner = file.metadata().map_err(|_| damaged())?.uid();
    if owner != 0 && !process.users.contains(&owner) {
        return Err(damaged());
    }
    let client = Client::attach(file.as_raw_fd()).map_err(|failure| refuse(process, failure))?;
    Ok(Some((file, client)))
}

/// Waits for other tools. The lock ends with this command, if not before.
fn lock(file: &File, process: &Process) -> Result<(), Refusal> {
    let begin = Instant::now();
    while flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
        if begin.elapsed() > LIMIT {
            let line = format!("another tool has been asking {process} for 5 s");
            return Err(Refusal::try_again(line));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Why a process has no control page of its own.
fn without_page(process: &Process) -> Refusal {
    if process.has_ended() {
        return refuse(process, Failure::Gone);
    }
    if process.refuses() {
        return Refusal::unavailable(format!("{process} runs with SHEAVES_CONTROL=0"));
    }
    if process.is_on_sheaves() {
        return Refusal::try_again(format!(
            "{process} runs on Sheaves, but has closed its control page: ask as root"
        ));
    }
    Refusal::unavailable(format!(
        "{process} has no control page: it does not run on Sheaves (start it by sheaves run)"
    ))
}

fn refuse(process: &Process, failure: Failure) -> Refusal {
    match failure {
        Failure::Gone => Refusal::unavailable(format!("{process} has ended")),
        Failure::Silent => Refusal::try_again(format!(
            "{process} has not answered for 5 s: it answers when it allocates more; not in a \
             sandbox, and not while a deferred call runs for long"
        )),
        Failure::Version(found) => Refusal::protocol(format!(
            "{process} has a control page of version {found}, which this command does not know: \
             use the command of the same release"
        )),
        Failure::Refused(errno) if errno == Errno::OPNOTSUPP.raw_os_error() => {
            Refusal::protocol(format!(
                "{process} is hardened or in debug mode, where no block is guarded: its frees \
                 are checked by other means"
            ))
        }
        Failure::Refused(errno) => {
            let error = io::Error::from_raw_os_error(errno);
            Refusal::protocol(format!("{process} cannot answer: {error}"))
        }
        Failure::Damaged => Refusal::protocol(format!(
            "the control page of {process} is damaged: something has written over it"
        )),
    }
}
