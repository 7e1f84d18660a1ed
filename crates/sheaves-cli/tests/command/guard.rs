//! `sheaves guard` of running programs, and `sheaves inspect` of core dumps.

use core::time::Duration;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::Instant;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use tempfile::TempDir;

use crate::real_object::object;
use crate::stand_in::{gcc, sheaves};

/// Far above what a loaded machine takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Each block of 30,000 bytes is guarded.
const ALL: [(&str, &str); 2] = [("SHEAVES_GUARD", "1/1"), ("SHEAVES_PROF", "1024")];

/// Compiles `misuse.c` in a folder.
fn misuse(directory: &TempDir) -> PathBuf {
    let program = directory.path().join("misuse");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/misuse.c");
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-w"];
    let mut arguments: Vec<&str> = flags.to_vec();
    arguments.extend([source.to_str().expect("UTF-8"), "-o", program.to_str().expect("UTF-8")]);
    assert!(gcc(&arguments), "gcc compiles");
    program
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited in vain for {what}");
        sleep(Duration::from_millis(5));
    }
}

/// The end of a program; it is killed if it does not end.
fn end(child: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().expect("waits") {
            return status;
        }
        sleep(Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("waits")
}

#[test]
fn a_running_process_is_guarded() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(misuse(&directory));
    command.arg("for-ever").env("LD_PRELOAD", object()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("runs");
    let pid = child.id().to_string();
    // Its page is there once it is 50 ms old.
    wait_for("an answer", || {
        let asked = sheaves().args(["guard", "on", &pid, "--rate", "1/1048576"]).output();
        asked.expect("runs").status.success().then_some(())
    });
    sheaves().args(["guard", "off", &pid]).assert().success().stdout("").stderr("");
    assert!(child.try_wait().expect("waits").is_none(), "it runs on");
    sheaves().args(["guard", "on", &pid, "--rate", "1/1"]).assert().success().stdout("").stderr("");
    assert_eq!(end(&mut child).signal(), Some(11));
    let output = child.wait_with_output().expect("the end");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("sheaves: guard: use after free: read of 0x"), "{errors}");
    sheaves().args(["guard", "on", &pid]).assert().code(67).stderr(contains("no process"));
}

#[test]
fn a_hardened_process_is_not_guarded() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(misuse(&directory));
    command.arg("for-ever").env("LD_PRELOAD", object()).env("SHEAVES_HARDEN", "1");
    let mut child = command.spawn().expect("runs");
    let pid = child.id().to_string();
    wait_for("its refusal", || {
        let output = sheaves().args(["guard", "on", &pid]).output().expect("runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        (output.status.code() == Some(76) && errors.contains("is hardened")).then_some(())
    });
    child.kill().expect("killed");
    child.wait().expect("waits");
}

#[test]
fn rates_are_fractions() {
    for rate in ["16", "1/0", "1/1048577", "2/3", "0.5"] {
        let wrong = contains("expected 1/N with N up to 1048576");
        sheaves().args(["guard", "on", "1", "--rate", rate]).assert().code(2).stderr(wrong);
    }
}

/// Runs `misuse` and returns its output and its core dump; `None` where there is none.
fn dumped(directory: &TempDir, kind: &str) -> Option<(Output, PathBuf)> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("read");
    if pattern.contains(['|', '/', '%']) {
        println!("skipped: core dumps go to {pattern}");
        return None;
    }
    let folder = directory.path().join(kind);
    std::fs::create_dir(&folder).expect("made");
    let script = "ulimit -c unlimited && exec \"$0\" \"$1\"";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(misuse(directory))
        .arg(kind)
        .env("LD_PRELOAD", object())
        .envs(ALL)
        .current_dir(&folder)
        .output()
        .expect("runs");
    let core = std::fs::read_dir(&folder).expect("read").next();
    let Some(core) = core else {
        println!("skipped: no core dump ({})", output.status);
        return None;
    };
    Some((output, core.expect("read").path()))
}

#[test]
fn a_core_dump_is_explained() {
    let directory = tempfile::tempdir().expect("a folder");
    let Some((output, core)) = dumped(&directory, "after") else { return };
    assert_eq!(output.status.signal(), Some(11));
    let words = contains("ended by signal 11")
        .and(contains("use after free: 0x"))
        .and(contains("at byte 100 of a block of 30000 bytes at 0x"))
        .and(contains("look_at").and(contains("make_block")).and(contains("drop_block")))
        .and(contains("main").and(contains("misuse.c:")));
    sheaves().arg("inspect").arg(&core).assert().success().stdout(words).stderr("");
    // Cut short anywhere, it is explained or refused.
    let whole = std::fs::read(&core).expect("read");
    for part in [0, 10, 64, 1000, whole.len() / 2, whole.len() - 5000] {
        std::fs::write(&core, &whole[..part]).expect("written");
        let status = sheaves().arg("inspect").arg(&core).output().expect("runs").status.code();
        assert!(
            status.is_some_and(|status| [0, 1, 65, 66].contains(&status)),
            "{part}: {status:?}"
        );
    }
}

#[test]
fn a_core_dump_of_a_double_free_is_explained() {
    let directory = tempfile::tempdir().expect("a folder");
    let Some((output, core)) = dumped(&directory, "twice") else { return };
    assert_eq!(output.status.signal(), Some(6));
    let words = contains("double free: 0x").and(contains("drop_block")).and(contains("make_block"));
    sheaves().arg("inspect").arg(&core).assert().success().stdout(words).stderr("");
}

#[test]
fn other_core_dumps_are_not_explained() {
    let directory = tempfile::tempdir().expect("a folder");
    let Some((output, core)) = dumped(&directory, "null") else { return };
    assert_eq!(output.status.signal(), Some(11));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let words = contains("not at a guarded block");
    sheaves().arg("inspect").arg(&core).assert().code(1).stdout(words).stderr("");
}

#[test]
fn what_is_no_core_dump_is_refused() {
    for (path, status, words) in [
        ("/nonexistent", 66, "cannot read /nonexistent"),
        ("/bin/true", 65, "/bin/true is no core dump"),
        ("/etc/passwd", 65, "/etc/passwd is no core dump"),
        ("/dev/null", 65, "/dev/null is no core dump"),
        ("/tmp", 65, "/tmp is no core dump"),
    ] {
        let output = sheaves().args(["inspect", path]).assert().code(status).get_output().clone();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(words) && errors.lines().count() == 1, "{errors}");
    }
}
