//! `stat`, `top`, `export` and `rcu` of running programs, and what they say of processes that do
//! not answer.

use core::num::NonZeroU16;
use core::time::Duration;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tempfile::TempDir;

use crate::real_object::{library, object};
use crate::stand_in::{gcc, sheaves};

/// Far above what a loaded machine takes.
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_there() {
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        sleep(Duration::from_millis(5));
    }
}

/// A program that `sheaves run` has started, whose thread allocates until it is killed.
pub(crate) struct Program(Child, #[expect(dead_code, reason = "holds its file")] TempDir);

const BUSY: &str = "#include <stdlib.h>\nint main(void) { for (;;) { void *p[4000]; \
     for (int i = 0; i < 4000; i++) p[i] = malloc(100); \
     for (int i = 0; i < 4000; i++) free(p[i]); } }\n";
const STEADY: &str = "#include <stdlib.h>\nint main(void) { for (;;) { \
     void *volatile block = malloc(64); free(block); } }\n";
/// A program that frees nothing: what has been sampled stays.
const GROWING: &str = "#include <stdlib.h>\n#include <unistd.h>\nint main(void) { \
     for (;;) { void *volatile block = malloc(100); usleep(100); } }\n";
/// A program that ends three seconds after the library has started its thread, to answer.
const ENDING: &str = "#include <stdlib.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\
     int main(void) { struct stat tasks; do { void *p[1000]; \
     for (int i = 0; i < 1000; i++) p[i] = malloc(100); \
     for (int i = 0; i < 1000; i++) free(p[i]); \
     stat(\"/proc/self/task\", &tasks); } while (tasks.st_nlink < 4); sleep(3); }\n";
/// A program that has a heap of its own in libsheaves.
const TWO_HEAPS: &str = "#include <sheaves.h>\n#include <stdlib.h>\nint main(void) { \
     sheaves_cache *cache = sheaves_cache_create(\"session\", 100, 0, 0, NULL); \
     for (;;) { void *p[4000], *q[4000]; for (int i = 0; i < 4000; i++) \
     p[i] = malloc(100), q[i] = sheaves_cache_alloc(cache); for (int i = 0; i < 4000; i++) \
     free(p[i]), sheaves_cache_free(cache, q[i]); } }\n";

impl Program {
    fn start() -> Program {
        Program::build(BUSY, &[])
    }

    fn with_two_heaps() -> Program {
        let headers = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../sheaves-capi/include");
        let library = library().to_str().expect("UTF-8").to_owned();
        let program = Program::build(TWO_HEAPS, &[headers, "-Wl,-rpath,$ORIGIN", &library]);
        wait_for("two pages", || program.pages().count() == 2);
        program
    }

    pub(crate) fn build(source: &str, flags: &[&str]) -> Program {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
        std::fs::write(path("busy.c"), source).expect("written");
        let (to, from) = (path("busy"), path("busy.c"));
        assert!(gcc([&["-O0", "-o", &to, &from], flags].concat()));
        if let Some(library) = flags.last() {
            // By the name that the library gives itself.
            symlink(library, path("libsheaves.so.0")).expect("linked");
        }
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
        command.args(["run", "--preload"]).arg(object()).args(["--", &path("busy")]);
        let child = command.spawn().expect("runs");
        let program = Program(child, directory);
        program.wait_for_page();
        program
    }

    fn pages(&self) -> impl Iterator<Item = PathBuf> {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", self.0.id())).expect("alive");
        let is_page = |path: &PathBuf| {
            let link = std::fs::read_link(path).unwrap_or_default();
            link.to_string_lossy().starts_with("/memfd:sheaves-control")
        };
        entries.flatten().map(|entry| entry.path()).filter(is_page)
    }

    fn wait_for_page(&self) {
        // Before `exec` the page is that of the command.
        let name = || std::fs::read_to_string(format!("/proc/{}/comm", self.0.id()));
        wait_for("a page", || name().expect("alive") == "busy\n" && self.pages().next().is_some());
    }

    pub(crate) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command and returns the one line of its refusal, with PID for the number.
#[track_caller]
fn refusal(command: &str, pid: &str, status: i32) -> String {
    let output =
        sheaves().args([command, pid]).assert().code(status).stdout("").get_output().clone();
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(text.lines().count(), 1, "{text:?}");
    text.trim_end().replace(pid, "PID")
}

#[test]
fn statistics_are_text_or_json() {
    let program = Program::start();
    let text = contains("malloc-112").and(contains(format!("pid {}", program.pid())));
    sheaves().args(["stat", &program.pid()]).assert().success().stdout(text).stderr("");
    let json = sheaves().args(["stat", "--json", &program.pid()]).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    assert_eq!(json["pid"].to_string(), program.pid());
    assert!(json["rcu"]["grace_periods"].is_u64() && json["limit"]["bytes"].is_null(), "{json}");
}

/// A program that takes no slow path has to be told to look; none of its fast paths is lost.
#[test]
fn program_that_never_looks_answers() {
    let program = Program::build(STEADY, &[]);
    for _ in 0..5 {
        // Its thread, if the library has one, ends meanwhile.
        sleep(Duration::from_millis(700));
        let json = sheaves().args(["stat", "--json", &program.pid()]).assert().success();
        let json: serde_json::Value =
            serde_json::from_slice(&json.get_output().stdout).expect("JSON");
        assert_eq!(json["pid"].to_string(), program.pid());
    }
}

/// The preload object's heap comes first, and keeps its place and labels.
#[test]
fn every_heap_of_a_process_is_shown() {
    let program = Program::with_two_heaps();
    let pid = program.pid();
    let both = || contains("libsheaves_preload.so").and(contains("libsheaves.so"));
    let caches = || both().and(contains("malloc-112")).and(contains("session"));
    let output = |arguments: &[&str]| sheaves().args(arguments).assert().success().stderr("");
    output(&["stat", &pid]).stdout(caches());
    output(&["top", "--once", &pid]).stdout(caches());
    let all = contains("busy, libsheaves_preload.so").and(contains("busy, libsheaves.so"));
    output(&["top", "--once"]).stdout(all);
    output(&["rcu", "--seconds", "0.1", &pid]).stdout(both());
    for arguments in [&["stat", "--json", &pid][..], &["top", "--once", "--json", &pid]] {
        let json = output(arguments);
        let json: serde_json::Value =
            serde_json::from_slice(&json.get_output().stdout).expect("one JSON object");
        assert_eq!(json["object"], "libsheaves_preload.so");
        assert_eq!(json["others"].as_array().expect("an array").len(), 1);
        assert_eq!(json["others"][0]["object"], "libsheaves.so");
        assert!(json["others"][0].to_string().contains("\"session\""), "{json}");
    }
    let line =
        |more: &str| format!("sheaves_heap_used_bytes{{pid=\"{pid}\",name=\"busy\"{more}}} ");
    let lines = contains(line("")).and(contains(line(",object=\"libsheaves.so\"")));
    output(&["export", &pid]).stdout(lines);
    output(&["prof", "on", "--rate", "4096", &pid]);
    wait_for("samples of both", || {
        let output = sheaves().args(["prof", "heap", &pid]).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.contains("objects of malloc-112") && text.contains("objects of cache session")
    });
    output(&["prof", "off", &pid]);
    output(&["guard", "on", &pid]);
    output(&["guard", "off", &pid]);
}

#[test]
fn processes_that_do_not_answer_are_refused() {
    for command in ["stat", "rcu"] {
        let line = refusal(command, "4194304", 67);
        assert_eq!(line, "sheaves: no process has the number PID");
    }
    let mut other = Command::new("sleep").arg("600").spawn().expect("runs");
    let name = format!("/proc/{}/comm", other.id());
    wait_for("exec", || std::fs::read_to_string(&name).expect("alive") == "sleep\n");
    let line = refusal("stat", &other.id().to_string(), 69);
    assert_eq!(
        line,
        "sheaves: process PID (sleep) has no control page: it does not run on Sheaves \
         (start it by sheaves run)"
    );
    other.kill().expect("killed");
    // It is not reaped.
    let mut line = String::new();
    wait_for("its end", || {
        line = refusal("stat", &other.id().to_string(), 69);
        line.ends_with("has ended")
    });
    assert_eq!(line, "sheaves: process PID (sleep) has ended");
    other.wait().expect("reaped");
}

#[test]
fn program_that_does_nothing_is_named() {
    let mut command = Command::new("sleep");
    let mut sleeps = command.arg("600").env("LD_PRELOAD", object()).spawn().expect("runs");
    let maps = format!("/proc/{}/maps", sleeps.id());
    wait_for("exec", || {
        std::fs::read_to_string(&maps).expect("alive").contains("libsheaves_preload")
    });
    let line = refusal("stat", &sleeps.id().to_string(), 75);
    assert_eq!(
        line,
        "sheaves: process PID (sleep) has not answered for 1 s: it answers when it allocates \
         more; not in a sandbox, and not while a deferred call runs for long"
    );
    sleeps.kill().expect("killed");
    sleeps.wait().expect("reaped");
}

#[test]
fn option_that_leaves_the_page_out_is_named() {
    for word in ["0", "false", "no", "off"] {
        let mut command = Command::new("cat");
        command.env("LD_PRELOAD", object()).env("SHEAVES_CONTROL", word);
        let mut waits = command.stdin(Stdio::piped()).spawn().expect("runs");
        let pid = waits.id();
        let maps = || std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("alive");
        wait_for("exec", || maps().contains("libsheaves_preload"));
        let line = refusal("stat", &pid.to_string(), 69);
        assert_eq!(line, format!("sheaves: process PID (cat) runs with SHEAVES_CONTROL={word}"));
        waits.kill().expect("killed");
        waits.wait().expect("reaped");
    }
}

/// Daemons close all descriptors that they do not know.
#[test]
fn program_that_has_closed_its_page_answers_root() {
    const SOURCE: &str = "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <unistd.h>\n\
         int main(void) { sleep(1); close_range(3, ~0u, 0); \
         for (;;) { void *p[4000]; usleep(1000); \
         for (int i = 0; i < 4000; i++) p[i] = malloc(100); \
         for (int i = 0; i < 4000; i++) free(p[i]); } }\n";
    let program = Program::build(SOURCE, &[]);
    wait_for("the call", || program.pages().count() == 0);
    let output = sheaves().args(["stat", &program.pid()]).output().expect("runs");
    if rustix::process::getuid().is_root() {
        assert!(String::from_utf8_lossy(&output.stdout).contains("malloc-112"), "{output:?}");
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains("has closed its control page: ask as root"), "{errors}");
    }
}

#[test]
fn other_users_are_refused() {
    let program = Program::start();
    for words in ["stat", "top --once", "export", "rcu", "prof on", "prof heap", "guard on"] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
        command.args(words.split(' ')).arg(program.pid()).uid(65534).gid(65534);
        let Ok(output) = command.output() else {
            eprintln!("skipped: only root can become another user, and have it run the command");
            return;
        };
        let line = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), &*output.stdout),
            (Some(77), &b""[..]),
            "{words}: {line}"
        );
        assert!(line.contains("cannot be looked into: ask as its user, or as root"), "{line}");
    }
}

#[test]
fn damaged_pages_are_refused() {
    let program = Program::start();
    let page = program.pages().next().expect("a page");
    let page = File::options().read(true).write(true).open(page).expect("ours");
    // The version, then the magic.
    page.write_all_at(&9_u32.to_ne_bytes(), 8).expect("written");
    let line = refusal("stat", &program.pid(), 76);
    assert_eq!(
        line,
        "sheaves: process PID (busy) has a control page of version 9, which this \
         command does not know: use the command of the same release"
    );
    page.write_all_at(&[7; 4096], 0).expect("written");
    let line = refusal("top", &program.pid(), 69);
    assert!(line.contains("top needs a terminal"), "{line}");
    let line = refusal("stat", &program.pid(), 76);
    assert_eq!(
        line,
        "sheaves: the control page of process PID (busy) is damaged: something has \
         written over it"
    );
    assert!(std::fs::exists(format!("/proc/{}", program.pid())).expect("readable"));
}

#[test]
fn process_that_stops_or_ends_is_not_waited_for_without_end() {
    let program = Program::start();
    let signal = |name: &str| {
        let status = Command::new("kill").args([name, &program.pid()]).status();
        assert!(status.expect("runs").success());
    };
    signal("-STOP");
    let line = refusal("stat", &program.pid(), 75);
    assert!(line.contains("(busy) has not answered for 1 s"), "{line}");
    // It is asked while it is stopped, and then killed.
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    let command = command.args(["stat", &program.pid()]).stderr(Stdio::piped());
    let asks = command.spawn().expect("runs");
    sleep(Duration::from_millis(200));
    signal("-KILL");
    let output = asks.wait_with_output().expect("ended");
    let line = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{line}");
    assert!(line.contains("has ended") || line.contains("no process"), "{line}");
}

#[test]
fn top_prints_once() {
    let program = Program::start();
    let columns = contains("REFILL/s").and(contains("malloc-112")).and(contains("per-CPU:"));
    sheaves()
        .args(["top", "--once", "--sort", "c", &program.pid()])
        .assert()
        .success()
        .stdout(columns);
    let all =
        contains("NAME   ").and(contains("RSS")).and(contains(program.pid())).and(contains("busy"));
    sheaves().args(["top", "--once"]).assert().success().stdout(all);
    let json = sheaves().args(["top", "--once", "--json", &program.pid()]).assert().success();
    let json: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).expect("JSON");
    assert_eq!(json["name"], "busy");
    assert!(json["rcu"]["readers"].is_array(), "{json}");
}

const ROWS: NonZeroU16 = NonZeroU16::new(40).expect("not 0");
const COLUMNS: NonZeroU16 = NonZeroU16::new(120).expect("not 0");

/// `sheaves top` on a terminal of 120 columns.
struct Terminal {
    child: Child,
    controller: File,
    terminal: OwnedFd,
    screen: vt100::Parser,
}

impl Terminal {
    fn start(arguments: &[&str]) -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("granted");
        unlockpt(&controller).expect("unlocked");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let path = name.to_str().expect("UTF-8");
        let terminal = File::options().read(true).write(true).open(path).expect("opened");
        let size =
            Winsize { ws_row: ROWS.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).expect("sized");
        let end = || Stdio::from(terminal.try_clone().expect("a descriptor"));
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
        command.arg("top").args(["--interval", "0.1"]).args(arguments);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("runs");
        let screen = vt100::Parser::new(ROWS, COLUMNS, 0);
        Terminal { child, controller: controller.into(), terminal: terminal.into(), screen }
    }

    /// Reads until the screen has a text.
    #[track_caller]
    fn wait_for(&mut self, text: &str) -> String {
        let begin = Instant::now();
        while !self.screen.screen().contents().contains(text) {
            assert!(begin.elapsed() < LIMIT, "{}", self.screen.screen().contents());
            self.read();
        }
        self.screen.screen().contents()
    }

    /// Moves to the row with a text, a key at a time. Other tests' processes are in the list, too,
    /// and end.
    #[track_caller]
    fn select(&mut self, text: &str) {
        self.wait_for(text);
        let place = |terminal: &Self, is_it: &dyn Fn(u16, String) -> bool| {
            let rows = terminal.screen.screen().rows(0, COLUMNS.get());
            (0..).zip(rows).find(|(row, text)| is_it(*row, text.clone())).map(|(row, _)| row)
        };
        loop {
            let wanted = place(self, &|_, row| row.contains(text));
            let selected = place(self, &|row, _| self.is_bold(row));
            let (Some(wanted), Some(selected)) = (wanted, selected) else {
                // Half of what is drawn has arrived.
                self.read();
                continue;
            };
            if wanted == selected {
                return;
            }
            self.press(if selected < wanted { "j" } else { "k" });
            let begin = Instant::now();
            while self.is_bold(selected) {
                assert!(begin.elapsed() < LIMIT, "{}", self.screen.screen().contents());
                self.read();
            }
        }
    }

    fn is_bold(&self, row: u16) -> bool {
        self.screen.screen().cell(row, 0).is_some_and(vt100::Cell::bold)
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        let count = self.controller.read(&mut bytes).expect("the screen");
        self.screen.process(&bytes[..count]);
    }

    fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).expect("written");
    }

    /// Waits for the end; the terminal must be as it was. Returns the exit status.
    #[track_caller]
    fn end(mut self) -> Option<i32> {
        // Its output has to be read for it to end.
        let mut reader = self.controller.try_clone().expect("a descriptor");
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let status = self.child.wait().expect("ended").code();
        let modes = tcgetattr(&self.terminal).expect("a terminal").local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "raw mode is left");
        // The end of the terminal's output, once it is closed everywhere.
        drop(self.terminal);
        for bytes in receiver {
            self.screen.process(&bytes);
        }
        assert!(!self.screen.screen().alternate_screen(), "the alternate screen is left");
        status
    }
}

#[test]
fn top_on_a_terminal_shows_caches_and_sorts_them() {
    let program = Program::start();
    let mut terminal = Terminal::start(&[&program.pid()]);
    let text = terminal.wait_for("malloc-112");
    assert!(text.contains("REFILL/s") && text.contains("grace periods"), "{text}");
    terminal.press("n");
    terminal.wait_for("q quit");
    terminal.press("q");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn top_chooses_a_process_and_restores_the_terminal_at_a_signal() {
    let (_other, program) = (Program::start(), Program::start());
    let mut terminal = Terminal::start(&[]);
    terminal.select(&program.pid());
    terminal.press("\r");
    terminal.wait_for("REFILL/s");
    terminal.press("\x1b");
    terminal.wait_for("DIRTY");
    let pid = terminal.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("runs").success());
    assert_eq!(terminal.end(), Some(128 + 15));
}

#[test]
fn metrics_are_printed_and_served() {
    let program = Program::start();
    let pid = program.pid();
    let metrics = contains("# TYPE sheaves_heap_used_bytes gauge")
        .and(contains(format!("sheaves_cache_refills_total{{pid=\"{pid}\",name=\"busy\"")))
        .and(contains("sheaves_rcu_grace_period_seconds_bucket{le=\"+Inf\""))
        .and(predicates::str::ends_with("# EOF\n"));
    sheaves().args(["export", &pid]).assert().success().stdout(metrics);
    sheaves().args(["export", "busy"]).assert().success().stdout(contains("name=\"busy\""));
    sheaves().args(["export"]).assert().success().stdout(contains(format!("pid=\"{pid}\"")));
    sheaves().args(["export", "no-such-name"]).assert().code(67).stdout("");
    sheaves().args(["export", "--listen", "nowhere:1"]).assert().code(69).stdout("");
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    command.args(["export", "--listen", "127.0.0.1:0", &pid]).stderr(Stdio::piped());
    let mut server = command.spawn().expect("runs");
    let mut line = String::new();
    let stderr = server.stderr.as_mut().expect("piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stderr), &mut line).expect("a line");
    let address = line.trim().trim_start_matches("sheaves: http://").trim_end_matches("/metrics");
    let get = |path: &str| {
        let mut stream = std::net::TcpStream::connect(address).expect("connected");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("a response");
        text
    };
    let text = get("/metrics");
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("application/openmetrics-text"));
    assert!(text.contains(&format!("sheaves_heap_used_bytes{{pid=\"{pid}\",name=\"busy\"}}")));
    assert!(get("/").starts_with("HTTP/1.1 404"));
    server.kill().expect("killed");
    server.wait().expect("reaped");
}

#[test]
fn a_process_is_found_by_its_name() {
    const SOURCE: &str = "#include <stdlib.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
         int main(void) { sleep(3); prctl(PR_SET_NAME, \"a name, and more\"); \
         for (;;) { void *p[4000]; for (int i = 0; i < 4000; i++) p[i] = malloc(100); \
         for (int i = 0; i < 4000; i++) free(p[i]); } }\n";
    let program = Program::build(SOURCE, &[]);
    let name = "a name, and more";
    wait_for("its name", || {
        sheaves().args(["stat", name]).output().expect("runs").status.success()
    });
    let number = || contains(program.pid());
    let rcu = contains("no grace period under way").or(contains("under way for"));
    sheaves().args(["stat", name]).assert().success().stdout(number().and(rcu));
    sheaves().args(["top", "--once", name]).assert().success().stdout(number());
    sheaves().args(["prof", "on", name]).assert().success();
    sheaves().args(["prof", "heap", name]).assert().success().stdout(number());
    // A shell completes its number, and names that it takes as they are.
    let complete = |word: &str| {
        sheaves()
            .args(["--", "sheaves", "stat", word])
            .envs([("_SHEAVES_COMPLETE", "bash"), ("_CLAP_COMPLETE_INDEX", "2")])
            .assert()
            .success()
    };
    complete("a na").stdout("");
    complete(&program.pid()).stdout(number());
    let _other = Program::start();
    complete("bu").stdout(contains("busy"));
    let line = refusal("stat", "no such name", 67);
    assert_eq!(line, "sheaves: no process has the name PID");
}

/// The reader of a pipe ends the command, however long it would wait for its next line.
#[test]
fn top_ends_with_its_reader() {
    let command = assert_cmd::cargo::cargo_bin("sheaves");
    let script = format!("{} top --json --interval 3600 | head -n 1", command.display());
    let output = Command::new("sh").args(["-c", &script]).output().expect("runs");
    assert!(output.status.success() && output.stdout.ends_with(b"\n"), "{output:?}");
}

#[test]
fn full_disk_is_an_error() {
    let full = || File::options().write(true).open("/dev/full").expect("opened");
    let words =
        [&["top", "--once"][..], &["export"], &["doctor"], &["man"], &["completions", "bash"], &[]];
    for words in words {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
        let output = command.args(words).stdout(full()).output().expect("runs");
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(line.contains("cannot write"), "{words:?} {line}");
        assert_eq!(output.status.code(), Some(74), "{words:?}");
        assert_eq!(line.lines().count(), 1, "{words:?} {line}");
    }
    // What the library writes: there is a line, and the status is the program's.
    for (variable, value) in [("SHEAVES_STATS", "1"), ("SHEAVES_PROF", "4096")] {
        let mut command = Command::new("ls");
        command.args(["-R", "/usr/include"]).stdout(Stdio::null()).env("LD_PRELOAD", object());
        command.envs([(variable, value), ("SHEAVES_STATS_FILE", "/dev/full")]);
        let output = command.env("SHEAVES_PROF_FILE", "/dev/full").output().expect("runs");
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && line.contains("to /dev/full: check"), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
    }
}

#[test]
fn each_process_has_its_own_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("profile.%p");
    let script =
        "sh -c 'ls -R /usr/include > /dev/null; true'; ls -R /usr/include > /dev/null; true";
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    command.args(["run", "--preload"]).arg(object()).args(["--stats-file"]);
    command.arg(folder.path().join("statistics.%p")).args(["sh", "-c", script]);
    command.envs([("SHEAVES_PROF", "1024")]).env("SHEAVES_PROF_FILE", path);
    let child = command.spawn().expect("runs");
    let number = child.id();
    assert!(child.wait_with_output().expect("ended").status.success());
    let names = std::fs::read_dir(folder.path()).expect("there").flatten();
    let names: Vec<_> =
        names.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    let count = |what: &str| names.iter().filter(|name| name.starts_with(what)).count();
    assert!(names.iter().all(|name| !name.contains('%')), "{names:?}");
    assert!(names.contains(&format!("statistics.{number}")), "{names:?}");
    // A shell may end without its end being noticed.
    assert!(count("statistics.") >= 3 && count("profile.") >= 2, "{names:?}");
}

#[test]
fn readers_and_grace_periods_are_printed() {
    let program = Program::start();
    let text = contains("threads in a read section: 0").and(contains("length of grace periods"));
    sheaves().args(["rcu", "--seconds", "0.3", &program.pid()]).assert().success().stdout(text);
    sheaves().args(["rcu", "--seconds", "-1", &program.pid()]).assert().code(2);
}

/// What was seen of a program that ends meanwhile is printed.
#[test]
fn readers_of_a_program_that_ends_are_printed() {
    let program = Program::build(ENDING, &[]);
    let text = contains("threads in a read section: 0").and(contains("grace periods in"));
    let asked = sheaves().args(["rcu", "--seconds", "60", &program.pid()]).assert();
    asked.code(69).stdout(text).stderr(contains("has ended"));
}

/// Profiling is turned on in a program that was not started for it.
#[test]
fn profile_of_a_running_program() {
    let program = Program::build(GROWING, &[]);
    let pid = program.pid();
    sheaves().args(["prof", "leaks", "--seconds", "1", &pid]).assert().code(69).stdout("");
    let asked = sheaves().args(["prof", "heap", &pid]).assert().code(69).stdout("");
    let line = String::from_utf8(asked.get_output().stderr.clone()).expect("UTF-8");
    let line = line.replace(&pid, "PID");
    assert_eq!(
        line,
        "sheaves: process PID (busy) takes no samples: turn profiling on by \
         `sheaves prof on PID`\n"
    );
    sheaves().args(["prof", "on", "--rate", "4096", &pid]).assert().success().stdout("");
    wait_for("samples of main", || {
        let output = sheaves().args(["prof", "heap", &pid]).output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(
            output.status.success() && text.contains("in use, estimated by one sample in 4.0 KiB"),
            "{text}"
        );
        text.contains("objects of malloc-112") && text.contains(" main\n")
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (before, svg) = (path("before"), path("graph.svg"));
    let succeeds = |words: &[&str]| sheaves().arg("prof").args(words).assert().success().stderr("");
    succeeds(&["leaks", "--seconds", "1", &pid]);
    succeeds(&["dump", &pid, "-o", &before]).stdout("");
    let head = contains(format!("process {pid} (busy): ")).and(contains(" main\n"));
    succeeds(&["heap", &before]).stdout(head);
    // A file, and what the process has now.
    succeeds(&["diff", &before, &pid, "--svg", &svg]).stdout(contains(" in all\n"));
    let graph = std::fs::read_to_string(svg).expect("written");
    assert!(graph.contains(&format!("process {pid} (busy): ")) && graph.contains("main"));
    let refused = |words: &[&str], status| {
        let refused = sheaves().arg("prof").args(words).assert().code(status).stdout("");
        assert_eq!(refused.get_output().stderr.split(|byte| *byte == b'\n').count(), 2);
    };
    refused(&["dump", &pid, "-o", "/dev/full"], 73);
    refused(&["heap", &pid, "--svg", "/dev/full"], 73);
    let whole = std::fs::read_to_string(&before).expect("written");
    std::fs::write(&before, &whole[..whole.len() - 5]).expect("written");
    refused(&["heap", &before], 65);
    sheaves().args(["prof", "off", &pid]).assert().success().stdout("");
    sheaves().args(["prof", "heap", &pid]).assert().success();
    refusal_of_prof("4194304", 67);
}

#[track_caller]
fn refusal_of_prof(pid: &str, status: i32) {
    for command in ["on", "off", "heap"] {
        let asked = sheaves().args(["prof", command, pid]).assert().code(status).stdout("");
        assert_eq!(asked.get_output().stderr.split(|byte| *byte == b'\n').count(), 2);
    }
}
