//! `sheaves run` of programs that cannot run: one line on stderr, nothing on stdout, and the exit
//! status that a shell would return.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;

use crate::stand_in::{gcc, sheaves, sheaves_run, stand_in};
use tempfile::{TempDir, tempdir};

pub(crate) fn directory() -> TempDir {
    tempdir().expect("a directory")
}

pub(crate) fn executable(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("changed");
    path.to_str().expect("a path in UTF-8").to_owned()
}

/// Runs `arguments` and returns the one line of the refusal.
#[track_caller]
fn refusal(arguments: &[&str], status: i32) -> String {
    one_line(&mut sheaves_run(arguments), status)
}

#[track_caller]
pub(crate) fn one_line(command: &mut assert_cmd::Command, status: i32) -> String {
    let output = command.assert().code(status).stdout("").get_output().clone();
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(text.starts_with("sheaves: ") && text.ends_with('\n'), "{text:?}");
    assert_eq!(text.lines().count(), 1, "{text:?}");
    text
}

#[track_caller]
pub(crate) fn assert_names(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "{word:?} is missing in {line:?}");
    }
}

#[test]
fn absent_program_is_127() {
    assert_names(&refusal(&["no-such-program"], 127), &["no-such-program", "not found in PATH"]);
    assert_names(&refusal(&["/nonexistent/x"], 127), &["/nonexistent/x: not found"]);
    assert_names(&refusal(&[""], 127), &["not found"]);
}

#[test]
fn file_without_permission_is_126() {
    let directory = directory();
    let path = directory.path().join("data");
    fs::write(&path, "text").expect("written");
    let line = refusal(&[path.to_str().expect("UTF-8")], 126);
    assert_names(&line, &["data: not executable"]);
}

#[test]
fn directory_is_126() {
    assert_names(&refusal(&["/tmp"], 126), &["/tmp: is a directory"]);
    assert_names(&refusal(&["/dev/null"], 126), &["/dev/null: is not a regular file"]);
    // A file where a directory should be.
    assert_names(&refusal(&["/proc/version/x"], 126), &["/proc/version/x: Not a directory"]);
}

#[test]
fn static_program_is_126() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("main.c"), "int main(void) { return 0; }").expect("written");
    for kind in ["-static", "-static-pie"] {
        let program = path(kind);
        if !gcc([kind, "-o", &program, &path("main.c")]) {
            eprintln!("skipped: no C library for {kind}");
            continue;
        }
        assert_names(&refusal(&[&program], 126), &[&program, "statically linked"]);
    }
}

#[test]
fn setuid_program_is_126() {
    let directory = directory();
    let path = directory.path().join("privileged");
    fs::copy("/bin/true", &path).expect("copied");
    let program = path.to_str().expect("UTF-8");
    for (user, group, mode, word) in
        [(Some(1), None, 0o4755, "setuid"), (Some(0), Some(1), 0o2755, "setgid")]
    {
        if chown(&path, user, group).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
        assert_names(&refusal(&[program], 126), &[program, word, "ignore preloaded objects"]);
    }
    // For the file's owner the bit changes nothing, so it is no obstacle.
    chown(&path, Some(0), Some(0)).expect("root may");
    fs::set_permissions(&path, Permissions::from_mode(0o6755)).expect("changed");
    sheaves_run([program]).assert().success().stderr("");
}

#[test]
fn program_for_another_machine_is_126() {
    let directory = directory();
    let mut start = fs::read("/bin/true").expect("read");
    start[18] = 183;
    let path = executable(&directory, "foreign", "");
    fs::write(&path, &start).expect("written");
    assert_names(&refusal(&[&path], 126), &["64-bit aarch64", "the preload object is 64-bit"]);
    start[4] = 1;
    fs::write(&path, &start).expect("written");
    assert_names(&refusal(&[&path], 126), &["32-bit aarch64"]);
}

#[test]
fn damaged_program_is_126() {
    let directory = directory();
    let whole = fs::read("/bin/true").expect("read");
    let path = executable(&directory, "damaged", "");
    for length in [4, 20, 64, 100, 2000] {
        fs::write(&path, &whole[..length]).expect("written");
        refusal(&[&path], 126);
    }
    fs::write(&path, b"\0\x01\x02\x03").expect("written");
    assert_names(&refusal(&[&path], 126), &["not a program this machine can run"]);
}

#[test]
fn scripts_are_checked_by_their_interpreter() {
    let directory = directory();
    let absent = executable(&directory, "absent", "#!/nonexistent/sh\n");
    assert_names(&refusal(&[&absent], 127), &[&absent, "interpreter /nonexistent/sh"]);
    let interpreter = executable(&directory, "text", "no program");
    let script = executable(&directory, "script", &format!("#!{interpreter}\n"));
    assert_names(&refusal(&[&script], 126), &["an interpreter must be a program"]);
    let good = executable(&directory, "good", "#!/bin/sh\nexit 7\n");
    sheaves_run([good.as_str()]).assert().code(7).stderr("");
    let nested = executable(&directory, "nested", &format!("#!{good}\n"));
    sheaves_run([nested.as_str()]).assert().code(7).stderr("");
    let plain = executable(&directory, "plain", "echo \"$1\"; exit 8\n");
    sheaves_run([plain.as_str(), "word"]).assert().code(8).stdout("word\n").stderr("");
}

#[test]
fn missing_preload_object_is_125() {
    let directory = directory();
    let with = |preload: &Path| {
        let mut command = sheaves();
        command.args(["run", "--preload"]).arg(preload).args(["--", "true"]);
        one_line(&mut command, 125)
    };
    assert_names(&with(Path::new("/nonexistent.so")), &["/nonexistent.so: No such file"]);
    assert_names(&with(Path::new("/tmp")), &["preload object /tmp: Is a directory"]);
    assert_names(&with(Path::new("/proc/version")), &["not an ELF file"]);
    let blank = directory.path().join("with blank.so");
    symlink(stand_in(), &blank).expect("linked");
    sheaves().args(["run", "--preload"]).arg(&blank).args(["--", "true"]).assert().success();
    fs::remove_file(&blank).expect("removed");
    fs::copy(stand_in(), &blank).expect("copied");
    assert_names(&with(&blank), &["blank"]);
}

#[test]
fn unwritable_statistics_file_is_125_before_the_start() {
    let mut command = sheaves();
    command.args(["run", "--stats-file", "/nonexistent/stats", "--", "echo", "started"]);
    assert_names(&one_line(&mut command, 125), &["/nonexistent/stats", "No such file"]);
}

#[test]
fn preload_object_without_malloc_is_125_before_the_start() {
    let directory = directory();
    let silent = directory.path().join("silent.so");
    fs::write(directory.path().join("a.c"), "int nothing;").expect("written");
    let source = directory.path().join("a.c");
    assert!(gcc(["-shared".as_ref(), "-o".as_ref(), silent.as_os_str(), source.as_os_str()]));
    let mut command = sheaves();
    command.arg("run").arg("--preload").arg(&silent).args(["--", "echo", "started"]);
    let line = one_line(&mut command, 125);
    assert_names(&line, &["silent.so: it does not define malloc", "name another"]);
}

#[test]
fn no_program_is_a_usage_error() {
    sheaves().arg("run").assert().code(2);
    sheaves().args(["run", "--stats=xml", "--", "true"]).assert().code(2);
}
