//! `sheaves run` of programs that can run: environment, exit status, statistics, signals.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};

use crate::stand_in::{sheaves, sheaves_run, stand_in};
use predicates::str::{contains, is_match, starts_with};

#[test]
fn exit_status_is_that_of_the_program() {
    sheaves_run(["true"]).assert().code(0).stdout("").stderr("");
    sheaves_run(["sh", "-c", "exit 3"]).assert().code(3).stderr("");
    for (signal, number) in [("KILL", 9), ("TERM", 15)] {
        let script = format!("kill -{signal} $$");
        let output = sheaves_run(["sh", "-c", &script]).output().expect("runs");
        assert_eq!((output.status.signal(), output.stderr), (Some(number), Vec::new()));
    }
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
    // The program has no more descriptors open than without Sheaves.
    let script = "ls /proc/self/fd | wc -l";
    let without = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output();
    let without = String::from_utf8(without.expect("the shell runs").stdout).expect("UTF-8");
    sheaves_run(["sh", "-c", script]).assert().stdout(without.clone()).stderr("");
    let greeted = sheaves().args(["run", "-v", "--", "sh", "-c", script]).assert().stdout(without);
    greeted.stderr(contains("sheaves: sh runs on Sheaves"));
}

#[test]
fn verbose_names_the_engine() {
    sheaves().args(["run", "-v", "--", "true"]).assert().success().stderr(
        is_match(
            r"^sheaves: true runs on Sheaves 0\.1\.0 \(engine \w+, slots by \w+, pid \d+\)\n$",
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

/// Starts `script` by `sheaves run`, and waits for its first line.
fn started(script: &str) -> (Child, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    command.env("SHEAVES_PRELOAD", stand_in()).args(["run", "--", "sh", "-c", script]);
    // In a process group of its own whose parent is in the same session: the kernel ignores stop
    // signals in an orphaned group.
    let mut child =
        command.process_group(0).stdout(Stdio::piped()).spawn().expect("the command starts");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    (child, line.trim_end().to_owned())
}

fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.expect("kill runs").success());
}

#[test]
fn process_of_the_command_is_that_of_the_program() {
    let (mut child, number) = started("echo $$; exec sleep 60");
    assert_eq!(number, child.id().to_string());
    // No process of the command is left beside it.
    let children = format!("/proc/{number}/task/{number}/children");
    assert_eq!(fs::read_to_string(children).expect("the process lives"), "");
    send("-KILL", &child);
    assert_eq!(child.wait().expect("an end").signal(), Some(9));
}

#[test]
fn stop_signals_stop_the_program() {
    let (mut child, _) = started("echo; exec sleep 60");
    for signal in ["-STOP", "-TSTP"] {
        send(signal, &child);
        await_state(child.id(), |state| state == 'T');
        send("-CONT", &child);
        await_state(child.id(), |state| state != 'T');
    }
    send("-TERM", &child);
    assert_eq!(child.wait().expect("an end").signal(), Some(15));
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

/// A mask of signals in `/proc/self/status` of a program that `env` and `sheaves run` start.
#[track_caller]
fn status_of(options: &[&str], line: &str) -> u64 {
    let mut command = Command::new("env");
    command.args(options).arg(assert_cmd::cargo::cargo_bin("sheaves"));
    command.args(["run", "--", "grep", line, "/proc/self/status"]);
    let output = command.env("SHEAVES_PRELOAD", stand_in()).output().expect("env runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mask = text.trim_end().rsplit('\t').next().and_then(|mask| mask.get(8..));
    // From 32 on there are those that libc keeps to itself.
    u64::from_str_radix(mask.expect("a mask"), 16).expect("a number") & 0x7fff_ffff
}

#[test]
fn signal_mask_and_ignored_signals_are_those_of_the_caller() {
    let bit = |number: u32| 1 << (number - 1);
    let (hup, usr1, pipe) = (bit(1), bit(10), bit(13));
    assert_eq!(status_of(&["--default-signal"], "SigBlk"), 0);
    assert_eq!(status_of(&["--block-signal=USR1"], "SigBlk"), usr1);
    assert_eq!(status_of(&["--default-signal"], "SigIgn"), 0);
    let ignored = ["--default-signal", "--ignore-signal=PIPE", "--ignore-signal=HUP"];
    assert_eq!(status_of(&ignored, "SigIgn"), hup | pipe);
}

#[test]
fn closed_descriptors_stay_closed() {
    let command = assert_cmd::cargo::cargo_bin("sheaves");
    let run = format!("{} run -- sh -c 'test -e /proc/$$/fd/N'", command.display());
    for (closed, number) in [("<&-", "0"), (">&-", "1"), ("2>&-", "2")] {
        let script = format!("exec {} {closed}", run.replace('N', number));
        let mut shell = Command::new("sh");
        let status = shell.args(["-c", &script]).env("SHEAVES_PRELOAD", stand_in()).status();
        assert_eq!(status.expect("the shell runs").code(), Some(1), "{closed}");
    }
}

#[test]
fn bench_has_the_options_of_the_benchmarks() {
    sheaves().args(["bench", "--help"]).assert().success().stdout(contains("--quick"));
    sheaves().args(["bench", "no-such-table"]).assert().code(2).stderr(contains("no-such-table"));
}
