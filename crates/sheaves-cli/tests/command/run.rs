//! `sheaves run` of programs that can run: environment, exit status, statistics, signals.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::stand_in::{sheaves, sheaves_run, stand_in};
use predicates::str::{contains, is_match, starts_with};

#[test]
fn exit_status_is_that_of_the_program() {
    sheaves_run(["true"]).assert().code(0).stdout("").stderr("");
    sheaves_run(["sh", "-c", "exit 3"]).assert().code(3).stderr("");
    sheaves_run(["sh", "-c", "kill -KILL $$"]).assert().code(137).stderr("");
    sheaves_run(["sh", "-c", "kill -TERM $$"]).assert().code(143).stderr("");
}

#[test]
fn program_gets_its_arguments_and_its_name() {
    sheaves_run(["printf", "%s|", "a b", "--stats", "-v", ""])
        .assert()
        .stdout("a b|--stats|-v||")
        .stderr("");
    sheaves_run(["sh", "-c", "echo $0"]).assert().stdout("sh\n");
    sheaves_run(["cat"]).write_stdin("through").assert().stdout("through");
}

#[test]
fn preload_comes_first_and_others_are_kept() {
    let ours = stand_in().canonicalize().expect("a path").display().to_string();
    let print = ["sh", "-c", "echo $LD_PRELOAD"];
    sheaves_run(print).assert().stdout(format!("{ours}\n"));
    sheaves_run(print)
        .env("LD_PRELOAD", "libm.so.6")
        .assert()
        .stdout(format!("{ours}:libm.so.6\n"));
}

#[test]
fn greeting_leaves_nothing_behind() {
    // The variable is removed, and the program has no more descriptors open than without Sheaves.
    let script = "echo ${SHEAVES_HELLO_FD-none}; ls /proc/self/fd | wc -l";
    let without = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output();
    let without = String::from_utf8(without.expect("the shell runs").stdout).expect("UTF-8");
    sheaves_run(["sh", "-c", script]).assert().stdout(without).stderr("");
}

#[test]
fn verbose_names_the_engine() {
    sheaves().args(["run", "-v", "--", "true"]).assert().success().stderr(
        is_match(
            r"^sheaves: \S*/true runs on Sheaves 0\.1\.0 \(engine \w+, slots by \w+, pid \d+\)\n$",
        )
        .expect("a pattern"),
    );
}

#[test]
fn harden_sets_the_option_for_the_program() {
    let shown = ["--", "sh", "-c", "echo $SHEAVES_HARDEN"];
    sheaves().args(["run", "--harden"]).args(shown).assert().success().stdout("1\n");
    sheaves().arg("run").args(shown).assert().success().stdout("\n");
}

#[test]
fn statistics_go_where_they_are_asked_to() {
    let run = |options: &[&str]| {
        let mut command = sheaves();
        command.arg("run").args(options).args(["--", "ls", "/"]);
        command.assert().success()
    };
    run(&[]).stderr("");
    run(&["--stats"]).stderr(starts_with("sheaves allocations "));
    run(&["--stats=text"]).stderr(starts_with("sheaves allocations "));
    run(&["--stats=json"]).stderr(starts_with("{\"allocations\": "));
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stats");
    fs::write(&path, "of an earlier run").expect("written");
    let option = format!("--stats-file={}", path.display());
    run(&[&option]).stderr("");
    assert!(fs::read_to_string(&path).expect("read").starts_with("sheaves allocations "));
    run(&[&option, "--stats=json"]).stderr("");
    assert!(fs::read_to_string(&path).expect("read").starts_with("{\"allocations\": "));
}

#[test]
fn relative_statistics_file_survives_a_change_of_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    sheaves()
        .current_dir(directory.path())
        .args(["run", "--stats-file", "stats", "--", "sh", "-c", "cd / && exec ls"])
        .assert()
        .success()
        .stderr("");
    let text = fs::read_to_string(directory.path().join("stats")).expect("read");
    assert!(text.starts_with("sheaves allocations "), "{text}");
}

/// Starts `script` under `sheaves run`, waits for its first line, and sends `signal` to the command
/// alone. Returns the rest of its output and its status.
fn signalled(script: &str, signal: &str) -> (String, Option<i32>) {
    let mut child = with_default_signals()
        .env("SHEAVES_PRELOAD", stand_in())
        .args(["run", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut ready = String::new();
    output.read_line(&mut ready).expect("a line");
    let kill = Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status();
    assert!(kill.expect("kill runs").success());
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    (rest, child.wait().expect("an end").code())
}

/// The command with no signal ignored. A shell ignores some signals for background jobs, these
/// tests may be one, and ignored signals are inherited.
fn with_default_signals() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(assert_cmd::cargo::cargo_bin("sheaves"));
    command
}

#[test]
fn signals_sent_to_the_command_reach_the_program() {
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"] {
        let script = format!(
            "trap 'echo got {signal}; exit 9' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        let (output, status) = signalled(&script, signal);
        assert_eq!((output.as_str(), status), (format!("got {signal}\n").as_str(), Some(9)));
    }
}

#[test]
fn program_that_dies_of_a_forwarded_signal_gives_its_status() {
    assert_eq!(signalled("echo ready; exec sleep 60", "TERM").1, Some(143));
}

#[test]
fn stop_signal_stops_both_and_continue_continues_both() {
    // In a process group of its own whose parent is in the same session: the kernel ignores the
    // stop signal in an orphaned group, such as that of a service or a background job.
    let mut child = with_default_signals()
        .process_group(0)
        .env("SHEAVES_PRELOAD", stand_in())
        .args(["run", "--", "sh", "-c", "echo $$; exec sleep 60"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    let program: u32 = line.trim().parse().expect("a process id");
    let send = |signal: &str| {
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
        assert!(status.expect("kill runs").success());
    };
    send("-TSTP");
    for pid in [program, child.id()] {
        await_state(pid, |state| state == 'T');
    }
    send("-CONT");
    for pid in [program, child.id()] {
        await_state(pid, |state| state != 'T');
    }
    send("-TERM");
    assert_eq!(child.wait().expect("an end").code(), Some(143));
}

/// Waits until the state letter of a process satisfies `wanted`.
#[track_caller]
fn await_state(pid: u32, wanted: impl Fn(char) -> bool) {
    for _ in 0..500 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process lives");
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if state.is_some_and(&wanted) {
            return;
        }
        std::thread::sleep(core::time::Duration::from_millis(10));
    }
    panic!("process {pid} does not reach the state");
}

#[test]
fn program_starts_with_no_blocked_signals_and_keeps_ignored_ones() {
    sheaves_run(["grep", "-E", "SigBlk:\\s0+$", "/proc/self/status"]).assert().success();
    let command = assert_cmd::cargo::cargo_bin("sheaves");
    let script = format!(
        "trap '' HUP; exec {} run -- grep -E 'SigIgn:.*[13579bdf]$' /proc/self/status",
        command.display()
    );
    let status = Command::new("sh")
        .args(["-c", &script])
        .env("SHEAVES_PRELOAD", stand_in())
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("the shell runs").success());
}

#[test]
fn command_ends_with_the_program_not_with_its_children() {
    sheaves_run(["sh", "-c", "sleep 5 >&2 2>/dev/null & exit 4"])
        .timeout(core::time::Duration::from_secs(4))
        .assert()
        .code(4);
}

#[test]
fn bench_has_the_options_of_the_benchmarks() {
    sheaves().args(["bench", "--help"]).assert().success().stdout(contains("--quick"));
    sheaves().args(["bench", "no-such-table"]).assert().code(2).stderr(contains("no-such-table"));
}
