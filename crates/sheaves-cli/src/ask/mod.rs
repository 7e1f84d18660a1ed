//! Asks a running process by its control page: finds it, opens it, waits for the answer.
//!
//! Used by `stat`, `top`, `export`, `rcu`, `prof` and `guard`. The process may end at any moment,
//! and be hostile: write anything into the page, take any time. So all that is read is checked and
//! limited, and each process has a time to answer in. What the process sees of it is a request that
//! it answers; nothing else in it is touched, but for one word of one that never looks, see `wake`.
//!
//! A process may have Sheaves more than once, in the preload object and in a library or the program
//! itself. Each of them has a heap, and a control page.

pub(crate) mod answer;
pub(crate) mod apart;
mod limits;
pub(crate) mod named;
mod page;
pub(crate) mod process;
mod refused;
pub(crate) mod sample;
mod wake;

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::thread;
use std::time::Instant;

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use serde::de::DeserializeOwned;
use sheaves_control::client::{Client, Failure};
use sheaves_control::layout::{ANSWER_AT, FILE_BYTES, STATISTICS};

use crate::output;
use crate::refusal::Refusal;
use answer::Statistics;
use process::{Handle, Process};
use refused::{refuse, time, without_page};

/// How long the command waits for a process that it was told to ask.
const LIMIT: Duration = Duration::from_secs(1);
/// The same, for one of many.
const LIMIT_OF_MANY: Duration = Duration::from_millis(200);
/// How long it takes at most to ask all.
const LIMIT_OF_ALL: Duration = Duration::from_secs(5);

/// The object whose heap is that of `malloc`.
pub(crate) const PRELOAD: &str = "libsheaves_preload.so";

/// A process of which a control page is open.
#[derive(Debug)]
pub(crate) struct Asked {
    /// What is known of it.
    pub(crate) process: Process,
    file: File,
    client: Client,
    handle: Arc<Handle>,
    /// How long to wait for answers, and until when.
    limit: Duration,
    end: Instant,
}

impl Asked {
    /// Finds and opens the control pages of a process: one for each heap, that of `malloc` first.
    pub(crate) fn attach(pid: u32) -> Result<Vec<Self>, Refusal> {
        let attached = apart::within(LIMIT, move || Self::attach_for(pid, LIMIT));
        attached.unwrap_or_else(|| {
            let name =
                Process::read(pid).map_or_else(|| format!("process {pid}"), |it| it.to_string());
            Err(Refusal::try_again(format!("{name} does not let its files in /proc be read")))
        })
    }

    /// The same, with another limit for all that follows.
    fn attach_for(pid: u32, limit: Duration) -> Result<Vec<Self>, Refusal> {
        let end = Instant::now() + limit;
        let absent = || Refusal::no_process(format!("no process has the number {pid}"));
        // While the process is alive the number is its own: asked again after the looks at `/proc`.
        let handle = Handle::open(pid).map_err(|error| {
            Refusal::try_again(format!("process {pid} cannot be opened: {error}"))
        })?;
        let handle = Arc::new(handle.ok_or_else(absent)?);
        let process = Process::read(pid).ok_or_else(absent)?;
        let (mut all, mut failed) = (Vec::new(), None);
        for path in page::find(&process, limit)? {
            match page::open(&process, &path, limit) {
                Ok(None) => {}
                Ok(Some((file, client))) => {
                    let (process, handle) = (process.clone(), Arc::clone(&handle));
                    all.push(Self { process, file, client, handle, limit, end });
                }
                Err(refusal) => failed = failed.or(Some(refusal)),
            }
        }
        if all.is_empty() {
            return Err(failed.unwrap_or_else(|| without_page(&process, limit)));
        }
        if !handle.is_alive() {
            return Err(refuse(&process, Failure::Gone, limit));
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

    /// Gives the process its time to answer again, for a command that asks more than once.
    pub(crate) fn renew(&mut self) {
        self.end = Instant::now() + self.limit;
    }

    /// The answer to a command, as text.
    pub(crate) fn ask(&mut self, command: u32, argument: u64) -> Result<String, Refusal> {
        self.lock()?;
        let answer = self.ask_locked(command, argument);
        let _ = flock(&self.file, FlockOperation::Unlock);
        answer
    }

    /// Waits for other tools. The lock ends with this command, if not before.
    fn lock(&self) -> Result<(), Refusal> {
        while flock(self.file.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= self.end {
                let (process, limit) = (&self.process, time(self.limit));
                let line = format!("another tool has been asking {process} for {limit}");
                return Err(Refusal::try_again(line));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn ask_locked(&mut self, command: u32, argument: u64) -> Result<String, Refusal> {
        let (handle, limit) = (&self.handle, self.limit);
        let closing_words = self.client.closing_words();
        let left = self.end.saturating_duration_since(Instant::now());
        let mut looks = 0;
        let mut is_alive = || {
            looks += 1;
            // A command that asks many processes writes to none of them.
            if looks >= 2 && limit == LIMIT {
                wake::wake(&self.process, handle, closing_words);
            }
            handle.is_alive()
        };
        let number = self.process.own_number;
        let asked =
            self.client.ask(number, command, argument, left.as_millis() as u64, &mut is_alive);
        let bytes = asked.map_err(|failure| refuse(&self.process, failure, limit))?;
        let mut text = vec![0; bytes];
        let read = self.file.read_exact_at(&mut text, ANSWER_AT as u64);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let answer_bytes = (FILE_BYTES - ANSWER_AT) as u64;
        // The process keeps the memory of its answers otherwise; the answer is there all the same.
        let _ = fallocate(&self.file, hole, ANSWER_AT as u64, answer_bytes);
        let damaged = || refuse(&self.process, Failure::Damaged, limit);
        read.map_err(|_| damaged())?;
        String::from_utf8(text).map_err(|_| damaged())
    }

    /// The answer to a command that is answered in JSON, which is within limits.
    pub(crate) fn ask_json_text(&mut self, command: u32, argument: u64) -> Result<String, Refusal> {
        // Names of caches and threads are the program's, with any characters but controls.
        let text = output::plain(&self.ask(command, argument)?).into_owned();
        let damaged = || refuse(&self.process, Failure::Damaged, self.limit);
        limits::are_kept(&text).then_some(text).ok_or_else(damaged)
    }

    /// The answer to a command that is answered in JSON.
    pub(crate) fn ask_json<T: DeserializeOwned>(
        &mut self,
        command: u32,
        argument: u64,
    ) -> Result<T, Refusal> {
        let text = self.ask_json_text(command, argument)?;
        let damaged = |_| refuse(&self.process, Failure::Damaged, self.limit);
        serde_json::from_str(&text).map_err(damaged)
    }

    /// Its statistics.
    pub(crate) fn statistics(&mut self) -> Result<Statistics, Refusal> {
        self.ask_json(STATISTICS, 0)
    }
}

/// Asks each heap of a process. Those that do not answer are named on stderr, unless none answers.
pub(crate) fn each<A, T>(
    all: impl IntoIterator<Item = A>,
    ask: impl FnMut(A) -> Result<T, Refusal>,
) -> Result<Vec<T>, Refusal> {
    let (answers, refusals) = answers(all, ask)?;
    refusals.iter().for_each(|refusal| output::say(&refusal.line));
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
