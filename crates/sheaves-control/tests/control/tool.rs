//! A tool: starts a program, finds its page, asks.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use sheaves_control::client::{Client, Failure};
use sheaves_control::layout::{ANSWER_AT, FILE_BYTES, LINK};

use crate::program;

/// Far above what a loaded machine takes.
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count())
}

/// A program that is killed at the end of the test.
pub(crate) struct Program {
    pub(crate) child: Child,
    /// The process that is asked: the child, or one that it has started.
    pid: u32,
    said: String,
    is_ours: bool,
}

impl Program {
    pub(crate) fn start(role: &str) -> Program {
        Program::start_with(role, &[])
    }

    /// Starts this executable as a program, and waits for its first line.
    pub(crate) fn start_with(role: &str, environment: &[(&str, &str)]) -> Program {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.env(program::ROLE, role).envs(environment.iter().copied());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
        let mut said = String::new();
        let out = child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut said).expect("a line");
        let (pid, said) = (child.id(), said.trim().to_owned());
        Program { child, pid, said, is_ours: true }
    }

    /// A process that another program has started, and that ends with it.
    pub(crate) fn running(pid: u32) -> Program {
        let child = Command::new("true").stdin(Stdio::piped()).spawn().expect("runs");
        Program { child, pid, said: String::new(), is_ours: false }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// What it said when it had begun.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    pub(crate) fn say(&self, line: &str) {
        let mut stdin = self.child.stdin.as_ref().expect("piped");
        // By one write: it may end as soon as it has read something.
        stdin.write_all(format!("{line}\n").as_bytes()).expect("it reads");
    }

    pub(crate) fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        name.trim().to_owned()
    }

    pub(crate) fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.split(' ').nth(2).is_some_and(|state| state != "Z")
    }

    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.pid)).map_or(0, |tasks| tasks.count())
    }

    fn page_paths(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", self.pid)) else { return Vec::new() };
        let is_page = |path: &PathBuf| fs::read_link(path).is_ok_and(|link| link == *LINK);
        entries.flatten().map(|entry| entry.path()).filter(is_page).collect()
    }

    pub(crate) fn pages(&self) -> usize {
        self.page_paths().len()
    }

    pub(crate) fn page_number(&self) -> Option<usize> {
        self.page_paths().first()?.file_name()?.to_str()?.parse().ok()
    }

    pub(crate) fn attach(&self) -> Option<Result<Tool, Failure>> {
        let path = self.page_paths().into_iter().next()?;
        let file = File::options().read(true).write(true).open(path).ok()?;
        let client = Client::attach(file.as_raw_fd());
        Some(client.map(|client| Tool { file, client, pid: self.pid }))
    }

    /// The page.
    pub(crate) fn page(&self) -> Option<Tool> {
        self.attach()?.ok()
    }

    /// Waits for the page.
    #[track_caller]
    pub(crate) fn tool(&self) -> Tool {
        let begin = Instant::now();
        loop {
            if let Some(tool) = self.page() {
                return tool;
            }
            assert!(self.is_alive(), "the program has ended");
            assert!(begin.elapsed() < LIMIT, "no page");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

pub(crate) struct Tool {
    file: File,
    client: Client,
    pid: u32,
}

impl Tool {
    pub(crate) fn ask(&mut self, command: u32, argument: u64) -> Result<String, Failure> {
        self.ask_for(command, argument, LIMIT.as_millis() as u64)
    }

    pub(crate) fn ask_for(
        &mut self,
        command: u32,
        argument: u64,
        milliseconds: u64,
    ) -> Result<String, Failure> {
        // Another tool of this machine may be asking.
        self.file.lock().expect("locked");
        let path = format!("/proc/{}", self.pid);
        let mut is_alive = || fs::exists(&path).unwrap_or(false);
        let asked = self.client.ask(self.pid, command, argument, milliseconds, &mut is_alive);
        let read = asked.map(|bytes| self.read(bytes));
        self.file.unlock().expect("locked");
        read
    }

    /// Reads an answer, and returns its memory.
    fn read(&self, bytes: usize) -> String {
        let mut text = vec![0; bytes];
        self.file.read_exact_at(&mut text, ANSWER_AT as u64).expect("the answer");
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (begin, length) = (ANSWER_AT as i64, (FILE_BYTES - ANSWER_AT) as i64);
        // SAFETY: integers only.
        assert_eq!(unsafe { libc::fallocate(self.file.as_raw_fd(), hole, begin, length) }, 0);
        String::from_utf8(text).expect("UTF-8")
    }

    pub(crate) fn inode(&self) -> u64 {
        self.file.metadata().expect("open").ino()
    }

    /// Units of 512 bytes of memory that the file has.
    pub(crate) fn blocks(&self) -> u64 {
        self.file.metadata().expect("open").blocks()
    }

    pub(crate) fn write_state(&mut self, state: u32) {
        self.write_word(4, state);
    }

    pub(crate) fn state(&self) -> u32 {
        let mut state = [0; 4];
        self.file.read_exact_at(&mut state, 16).expect("read");
        u32::from_ne_bytes(state)
    }

    pub(crate) fn write_process(&mut self, process: u32) {
        self.write_word(5, process);
    }

    /// Writes a word of 4 bytes into the first 4 KiB.
    pub(crate) fn write_word(&mut self, index: u32, word: u32) {
        let at = u64::from(index % 1024) * 4;
        self.file.write_all_at(&word.to_ne_bytes(), at).expect("written");
    }
}
