//! Processes that answer what they like, or nothing: a tool of root must not be harmed by them, and
//! must not harm others for them.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::running::wait_for;
use crate::stand_in::gcc;

/// What the tool may take on a loaded machine. Its own limit is a second.
const LIMIT: Duration = Duration::from_secs(30);
/// Address space of the tool, in KiB: most of it is reserved and never used.
const SPACE: u32 = 200_000;
/// What it may write to, in KiB: with its code, 64 MiB in memory.
const DATA: u32 = 48 << 10;

const STATISTICS: u32 = 1;
const RCU: u32 = 2;
const TEXT: u32 = 3;
const PROFILE: u32 = 6;

/// A process with a page of its own making.
struct Hostile(Child, TempDir);

impl Hostile {
    fn start(mode: &str) -> Hostile {
        let folder = tempfile::tempdir().expect("a folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/command/hostile_page.c");
        let program = folder.path().join("hostile");
        let path = program.to_str().expect("UTF-8");
        assert!(gcc(["-O1", "-Wno-unused-result", "-o", path, source]), "it compiles");
        let mut command = Command::new(&program);
        command.arg(folder.path()).args((!mode.is_empty()).then_some(mode));
        let mut child = command.stdout(Stdio::piped()).spawn().expect("runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "begun\n", "{mode}");
        Hostile(child, folder)
    }

    fn says(&self, command: u32, answer: impl AsRef<[u8]>) {
        let (new, path) = (self.1.path().join("new"), self.1.path().join(command.to_string()));
        fs::write(&new, answer).expect("written");
        fs::rename(new, path).expect("renamed");
    }

    /// What a command says of it, after the checks that hold for any.
    #[track_caller]
    fn asked(&self, words: &str) -> Output {
        let command = format!("{words} {}", self.0.id());
        checked(&command)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command: it ends in time and by itself, has little memory, and prints nothing that a
/// terminal obeys.
#[track_caller]
fn checked(words: &str) -> Output {
    let begin = Instant::now();
    let limited = format!("ulimit -v {SPACE}; ulimit -d {DATA}; exec timeout 60 \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &limited, "sh"])
        .arg(assert_cmd::cargo::cargo_bin("sheaves"))
        .args(words.split(' '))
        // Each arena of glibc reserves 64 MiB.
        .env("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
        .output()
        .expect("runs");
    assert!(begin.elapsed() < LIMIT, "{words} takes {:?}", begin.elapsed());
    let status = output.status.code().filter(|status| *status < 124);
    let [out, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    let errors = errors.trim_end();
    assert!(status.is_some() && !errors.contains("panicked"), "{words}: {status:?} {errors}");
    let is_obeyed = |char: char| char.is_control() && char != '\n' && char != '\t';
    assert!(!out.contains(is_obeyed) && !errors.contains(is_obeyed), "{words}: {out:?} {errors:?}");
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const COMMANDS: [&str; 6] =
    ["stat", "stat --json", "top --once", "rcu --seconds 0.1", "prof heap", "export"];
const EVIL: &str = "\x1b]0;title\x07\x1b[31m\u{9b}2J\u{202e}";

#[test]
fn nothing_that_is_said_reaches_the_terminal() {
    let hostile = Hostile::start("");
    hostile.says(TEXT, EVIL);
    let json = format!("{{\"engine\":{0},\"caches\":[{{\"name\":{0}}}]}}", json(EVIL));
    hostile.says(STATISTICS, &json);
    let rcu = "{\"rcu\":{\"sequence\":5},\"readers\":[{\"tid\":1,\"sequence\":1,\"name\":NAME}]}";
    hostile.says(RCU, rcu.replace("NAME", &json_of_name()));
    hostile.says(PROFILE, profile(&format!("site live malloc {EVIL} 2 30 1900 40 2500 1001")));
    for command in COMMANDS {
        hostile.asked(command);
    }
    // Its name is cut inside a character, and is found all the same.
    let found = hostile.asked("stat");
    assert!(found.status.success() && text(&found.stdout).starts_with('?'), "{found:?}");
}

/// The library writes names as they are, but for control characters.
#[test]
fn names_with_other_marks_are_shown_without() {
    let hostile = Hostile::start("");
    hostile.says(STATISTICS, "{\"caches\":[{\"name\":\"left\u{202e}right\"}]}");
    hostile.says(RCU, "{\"readers\":[{\"tid\":7,\"name\":\"left\u{200f}right\"}]}");
    for command in ["stat --json", "top --once", "export", "rcu --seconds 0.1"] {
        let output = hostile.asked(command);
        assert!(output.status.success(), "{command}: {output:?}");
        let out = text(&output.stdout);
        assert!(out.contains("left?right") && !out.contains(['\u{202e}', '\u{200f}']), "{out}");
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn json_of_name() -> String {
    json(EVIL)
}

fn profile(site: &str) -> String {
    format!("sheaves heap profile 1\nrate_bytes 1024\nsince_ms 5\nuntil_ms 9\n{site}\nend\nmaps\n")
}

#[test]
fn large_and_deep_answers_are_refused() {
    let hostile = Hostile::start("");
    let many = |element: &str, count: usize| vec![element; count].join(",");
    let answers = [
        format!("{{\"caches\":[{}]}}", many("{}", 1_390_000)),
        format!("{{\"rcu\":{{\"lengths\":[{}]}}}}", many("1", 2_000_000)),
        "[".repeat(100_000),
        "{\"totals\":".repeat(400_000),
        "\u{0}".repeat(4 << 20),
    ];
    for answer in answers {
        hostile.says(STATISTICS, &answer);
        hostile.says(RCU, &answer);
        for command in ["stat --json", "top --once", "rcu --seconds 0.1", "export"] {
            let output = hostile.asked(command);
            let errors = text(&output.stderr);
            assert!(errors.contains("is damaged") || output.status.success(), "{errors}");
            assert!(output.stdout.len() < 1 << 20, "{command}");
        }
    }
}

/// Not even for a moment: any other process may be the one that must not wait.
#[test]
fn no_thread_is_stopped_that_is_not_of_the_process() {
    let hostile = Hostile::start("");
    let mut victim = Command::new("sleep").arg("600").spawn().expect("runs");
    let tids = [victim.id(), std::process::id(), std::os::unix::process::parent_id(), 1, 0];
    let readers = tids.map(|tid| format!("{{\"tid\":{tid},\"name\":\"x\",\"sequence\":1}}"));
    let readers = readers.join(",");
    hostile.says(RCU, format!("{{\"rcu\":{{\"sequence\":5}},\"readers\":[{readers}]}}"));
    let status = format!("/proc/{}/status", victim.id());
    let asks = std::thread::scope(|scope| {
        let asks = scope.spawn(|| hostile.asked("rcu --seconds 1"));
        while !asks.is_finished() {
            let status = fs::read_to_string(&status).expect("alive");
            assert!(status.contains("TracerPid:\t0\n"), "{status}");
        }
        asks.join().expect("no panic")
    });
    victim.kill().expect("killed");
    victim.wait().expect("reaped");
    let out = text(&asks.stdout);
    assert!(out.contains("its stack cannot be read: the process has no such thread"), "{out}");
}

/// A child of another user may have chosen the address, in the page that it shares.
#[test]
fn no_word_is_written_that_is_not_of_the_library() {
    let hostile = Hostile::start("words");
    let address = fs::read_to_string(hostile.1.path().join("words")).expect("an address");
    let address = u64::from_str_radix(&address[2..], 16).expect("a number");
    assert_eq!(hostile.asked("stat").status.code(), Some(75));
    let memory = fs::File::open(format!("/proc/{}/mem", hostile.0.id())).expect("opened");
    let mut words = [0; 16];
    memory.read_exact_at(&mut words, address).expect("read");
    assert_eq!(words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).min(), Some(1000));
}

/// A signal that reaches a thread while its stack is read stops it, too.
#[test]
fn no_signal_is_lost_when_a_stack_is_read() {
    let hostile = Hostile::start("signals");
    let reader = format!("{{\"tid\":{},\"name\":\"x\",\"sequence\":1}}", hostile.0.id());
    hostile.says(RCU, format!("{{\"rcu\":{{\"sequence\":5}},\"readers\":[{reader}]}}"));
    let path = hostile.1.path().join("received");
    let received = || {
        let bytes = fs::read(&path).expect("the number of signals");
        u64::from_ne_bytes(bytes.try_into().expect("8 bytes"))
    };
    let out = text(&hostile.asked("rcu --seconds 1").stdout);
    if out.contains("ptrace is not permitted") {
        eprintln!("skipped: {out}");
        return;
    }
    assert!(out.contains("\n  #0 "), "{out}");
    // The next one is sent when the last one has arrived.
    let before = received();
    wait_for("signals", || received() > before + 2);
}

#[test]
fn files_that_a_profile_names_are_not_waited_for() {
    let hostile = Hostile::start("");
    let pipe = hostile.1.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("runs").success());
    let dump = hostile.1.path().join("dump");
    for path in [Path::new("/dev/zero"), Path::new("/proc/kmsg"), Path::new("/"), &pipe] {
        let site = "site live malloc a 2 30 18446744073709551615 40 2500 1001";
        let site = format!("{site}\n{site}");
        let maps = format!("0-3000 r-xp 00000000 08:01 77 {}\nend\n", path.display());
        fs::write(&dump, profile(&site) + &maps).expect("written");
        let dump = dump.to_str().expect("UTF-8");
        let output = checked(&format!("prof heap {dump} -o {dump}.pb.gz --svg {dump}.svg --text"));
        assert!(output.status.success(), "{output:?}");
        assert!(checked(&format!("prof diff {dump} {dump}")).status.success());
    }
}

#[test]
fn processes_that_let_others_wait_are_named() {
    for mode in ["lease", "lock", "silent"] {
        let hostile = Hostile::start(mode);
        for command in COMMANDS {
            let output = hostile.asked(command);
            assert_eq!(output.status.code(), Some(75), "{mode} {command}: {output:?}");
            assert_eq!(text(&output.stderr).lines().count(), 1, "{output:?}");
        }
        // It is listed among others.
        let all = text(&checked("top --once").stdout);
        let pid = hostile.0.id().to_string();
        let row = all.lines().find(|row| row.split_whitespace().any(|word| word == pid));
        assert!(row.is_some_and(|row| row.ends_with(" does not answer")), "{mode}: {all}");
        let all = text(&checked("export").stdout);
        assert!(all.contains(&format!("sheaves_up{{pid=\"{pid}\"")), "{mode}: {all}");
        let all = text(&checked("top --once --json").stdout);
        assert!(all.contains(&format!("{{\"pid\":{pid},\"name\":")), "{mode}: {all}");
    }
}

/// The exporter, with so few descriptors that idle clients could take all of them.
struct Exporter(Child, String);

impl Exporter {
    fn start() -> Exporter {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$@\"", "sh"])
            .arg(assert_cmd::cargo::cargo_bin("sheaves"))
            .args(["export", "--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("runs");
        let mut line = String::new();
        let errors = child.stderr.as_mut().expect("piped");
        BufReader::new(errors).read_line(&mut line).expect("a line");
        let address = line.trim().trim_start_matches("sheaves: http://");
        Exporter(child, address.trim_end_matches("/metrics").to_owned())
    }

    /// A client that has sent this.
    fn client(&self, sends: &str) -> TcpStream {
        let mut client = TcpStream::connect(&self.1).expect("connected");
        client.set_read_timeout(Some(LIMIT)).expect("set");
        client.set_write_timeout(Some(LIMIT)).expect("set");
        // It may be refused while it sends.
        let _ = client.write_all(sends.as_bytes());
        client
    }

    /// What a client gets that has sent this.
    fn answer(&self, sends: &str) -> String {
        let mut text = Vec::new();
        // What is not read of the request resets the connection.
        let _ = self.client(sends).read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    #[track_caller]
    fn serves_others(&self) {
        let text = self.answer("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("# EOF\n"), "{text}");
    }

    /// The most memory that it has had, in KiB.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("alive");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("there");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each has a control page as any program with the library.
#[test]
fn other_tools_are_not_listed() {
    let exporter = Exporter::start();
    let listed = text(&checked("top --once --json").stdout);
    assert!(!listed.contains(&format!("\"pid\":{},", exporter.0.id())), "{listed}");
}

#[test]
fn a_client_of_the_exporter_does_not_harm_others() {
    let exporter = Exporter::start();
    exporter.serves_others();
    let before = exporter.resident();
    let head = "GET /metrics HTTP/1.1\r\nHost: x\r\n";
    let idle: Vec<_> = (0..12).map(|_| exporter.client("GET /m")).collect();
    let without_body = exporter.client(&format!("{head}Content-Length: 1000000\r\n\r\n"));
    exporter.serves_others();
    drop((idle, without_body));
    // More than it has descriptors for: the others wait until these are gone, or out of time.
    let idle: Vec<_> = (0..100).map(|_| exporter.client("GET /m")).collect();
    exporter.serves_others();
    drop(idle);
    let endless = exporter.answer(&format!("{head}X: {}", "a".repeat(64 << 20)));
    assert!(endless.is_empty() || endless.starts_with("HTTP/1.1 4"), "{endless:.100}");
    exporter.serves_others();
    assert!(exporter.answer("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(exporter.resident() - before < 32 << 10, "{before} {}", exporter.resident());
}

/// A generator of answers: pieces of right ones, in the wrong order.
struct Generator(u64);

impl Generator {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % count
    }

    fn answer(&mut self, pieces: &[&str]) -> String {
        let count = self.below(400);
        (0..count).map(|_| pieces[self.below(pieces.len())]).collect()
    }

    /// A right answer in which some bytes are others.
    fn changed(&mut self, right: &str) -> Vec<u8> {
        let mut bytes = right.as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = b"0123456789,:{}[]\"-\n \x1b\xff"[self.below(22)];
        }
        bytes.truncate(bytes.len() - self.below(2) * self.below(bytes.len()));
        bytes
    }
}

/// `SHEAVES_TEST_ANSWERS` is how many there are, a sixth of them for each command.
#[test]
fn no_answer_harms_the_tool() {
    const STATISTICS_RIGHT: &str = "{\"pid\":1,\"slots\":18446744073709551615,\"totals\":\
         {\"used_bytes\":18446744073709551615},\"percpu\":{\"slots_used\":18446744073709551615,\
         \"committed_bytes\":18446744073709551615},\"caches\":[{\"name\":\"a\",\"objects_out\":\
         18446744073709551615,\"objects_in_depot\":18446744073709551615},{\"name\":\"a\"}]}";
    const RCU_RIGHT: &str = "{\"age_ms\":18446744073709551615,\"rcu\":{\"completed\":9,\
         \"lengths_us\":18446744073709551615,\"lengths\":[1,18446744073709551615,3],\"sequence\":9,\
         \"under_way\":{\"number\":1,\"age_us\":18446744073709551615}},\"readers\":[{\"tid\":7,\
         \"name\":\"r\",\"sequence\":1}]}";
    const PROFILE_PIECES: [&str; 9] = [
        "sheaves heap profile 1\n",
        "rate_bytes 0\n",
        "since_ms 18446744073709551615\n",
        "until_ms 1\n",
        "dropped 18446744073709551615\n",
        "end\n",
        "maps\n",
        "site live malloc a 2 30 18446744073709551615 40 2500 1001\n",
        "site deferred cache \x1b 1 18446744073709551615 1 1 1 ffffffffffffffff 0\n",
    ];
    let hostile = Hostile::start("");
    let mut generator = Generator(1);
    let rounds = std::env::var("SHEAVES_TEST_ANSWERS").map_or(200, |it| it.parse().unwrap());
    for round in 0..rounds {
        hostile.says(STATISTICS, generator.changed(STATISTICS_RIGHT));
        hostile.says(RCU, generator.changed(RCU_RIGHT));
        hostile.says(TEXT, generator.changed(STATISTICS_RIGHT));
        let body = generator.answer(&PROFILE_PIECES[1..]);
        hostile.says(PROFILE, format!("{}{body}", PROFILE_PIECES[0]));
        hostile.asked(COMMANDS[round % COMMANDS.len()]);
    }
}
