//! The profile of a process with threads and children is turned on and off again and again, also by
//! tools that are killed meanwhile: nothing of it is left behind.

use core::time::Duration;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;

use crate::running::{Program, wait_for};
use crate::stand_in::sheaves;

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
