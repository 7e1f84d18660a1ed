//! The profile of a process with threads and children is turned on and off again and again, also by
//! tools that are killed meanwhile: nothing of it is left behind. And tools without a pidfd.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread::sleep;

use crate::running::{Program, wait_for};
use crate::stand_in::{gcc, sheaves};

/// Eight threads that allocate, and a child after the other.
const THREADS_AND_FORKS: &str = "#include <pthread.h>\n#include <stdlib.h>\n\
     #include <sys/wait.h>\n#include <unistd.h>\n\
     static void *work(void *unused) { for (;;) { void *volatile p[400]; \
     for (int i = 0; i < 400; i++) p[i] = malloc(16 + 8 * i); \
     for (int i = 0; i < 400; i++) free(p[i]); usleep(1000); } return unused; }\n\
     int main(void) { for (int i = 0; i < 8; i++) { pthread_t thread; \
     if (pthread_create(&thread, NULL, work, NULL)) return 1; } for (;;) { \
     if (fork() == 0) { free(malloc(100)); _exit(0); } while (wait(NULL) < 0); usleep(1000); } }\n";

/// The threads of the program, and one of the library.
const THREADS_MAX: usize = 10;
/// Mappings that come and go with what is allocated.
const MAPPINGS_MORE: usize = 32;
const RESIDENT_KIB_MORE: u64 = 16 << 10;

/// Descriptors, mappings and resident KiB of a process.
fn state(pid: &str) -> (usize, usize, u64) {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("alive");
    let resident = read("status").lines().find_map(|line| {
        let number = line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?;
        number.parse().ok()
    });
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("alive").count();
    (files, read("maps").lines().count(), resident.expect("alive"))
}

/// The first whose state is compared, and a tool was killed before. What the first profile makes
/// stays: the tables of samples, and libgcc.
const COMPARED: u64 = 5;

/// `SHEAVES_TEST_ATTACHED` is how often.
#[test]
fn nothing_is_left_behind() {
    let rounds =
        std::env::var("SHEAVES_TEST_ATTACHED").map_or(20, |rounds| rounds.parse().unwrap());
    let program = Program::build(THREADS_AND_FORKS, &[]);
    let pid = program.pid();
    let switch = |word| sheaves().args(["prof", word, &pid]).assert().success();
    let mut before = None;
    for round in 0..rounds.max(COMPARED + 1) {
        switch("on");
        if round % 4 == 0 {
            let mut killed = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
            killed.args(["prof", "heap", &pid]).stdout(Stdio::null()).stderr(Stdio::null());
            let mut killed = killed.spawn().expect("runs");
            sleep(Duration::from_millis(round % 40));
            killed.kill().expect("killed");
            killed.wait().expect("reaped");
        }
        switch("off");
        if round == COMPARED {
            before = Some(state(&pid));
        }
    }
    let (files, mappings, resident) = before.expect("enough rounds");
    wait_for("files to be closed", || state(&pid).0 == files);
    let after = state(&pid);
    assert!(after.1 <= mappings + MAPPINGS_MORE, "{after:?} {mappings}");
    assert!(after.2 <= resident + RESIDENT_KIB_MORE, "{after:?} {resident}");
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).expect("alive").count();
    wait_for("threads to end", || threads() <= THREADS_MAX);
    sheaves().args(["stat", &pid]).assert().success().stderr("");
}

/// Runs its arguments from the second on; there `pidfd_open` fails with the error of this number.
const WITHOUT_PIDFD: &str = "#include <linux/filter.h>\n#include <linux/seccomp.h>\n\
     #include <stddef.h>\n#include <stdlib.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
     int main(int argc, char **argv) { struct sock_filter filter[] = { \
     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)), \
     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 434, 0, 1), \
     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[1])), \
     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) }; \
     struct sock_fprog program = { 4, filter }; \
     if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || \
     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1; \
     execv(argv[2], argv + 2); return 1; }\n";

/// Before Linux 5.3 there is none, and some containers do not permit it.
#[test]
fn pidfds_are_not_needed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("without.c"), WITHOUT_PIDFD).expect("written");
    assert!(gcc(["-O1", "-o", &path("without"), &path("without.c")]));
    let program = Program::build(THREADS_AND_FORKS, &[]);
    let stat = |errno: &str, pid: &str| {
        let mut command = Command::new(path("without"));
        command.arg(errno).arg(assert_cmd::cargo::cargo_bin("sheaves")).args(["stat", pid]);
        let output = command.output().expect("runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // EPERM and ENOSYS.
    for errno in ["1", "38"] {
        assert_eq!(stat(errno, &program.pid()), (Some(0), String::new()), "{errno}");
        let absent = "sheaves: no process has the number 4194304\n";
        assert_eq!(stat(errno, "4194304"), (Some(67), absent.to_owned()), "{errno}");
    }
    // Another error, EMFILE, is named.
    let (status, line) = stat("24", &program.pid());
    assert!(status == Some(75) && line.contains("cannot be opened: "), "{status:?} {line}");
}

/// Allocates, and is another program after a signal: its own file, under another name.
const REPLACED: &str = "#include <signal.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
     static void replace(int is) { (void)is; execl(\"/proc/self/exe\", \"other\", NULL); }\n\
     int main(void) { signal(SIGUSR1, replace); for (;;) { void *volatile p[1000]; \
     for (int i = 0; i < 1000; i++) p[i] = malloc(100); \
     for (int i = 0; i < 1000; i++) free(p[i]); } }\n";

/// A number says which process is meant at first; what has it later is another heap.
#[test]
fn lines_of_top_end_with_the_heap_that_was_asked_first() {
    let program = Program::build(REPLACED, &[]);
    let mut top = Command::new(assert_cmd::cargo::cargo_bin("sheaves"));
    top.args(["top", "--json", "--interval", "0.1", &program.pid()]);
    let mut top = top.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("runs");
    let mut lines = BufReader::new(top.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("UTF-8"));
    assert!(next().expect("a line").contains("\"name\":\"busy\""));
    assert!(Command::new("kill").args(["-USR1", &program.pid()]).status().expect("runs").success());
    while let Some(line) = next() {
        assert!(line.contains("\"name\":\"busy\""), "{line}");
    }
    assert!(!top.wait().expect("ended").success());
}
