//! Options of programs that link the library: read at load, and done at exit as under the preload
//! object.

use core::time::Duration;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use crate::c_programs::object;
use crate::{ENGINES, Link, compile, run, run_ok};

const LIMIT: Duration = Duration::from_secs(60);
/// From `<signal.h>`.
const SIGABRT: i32 = 6;
const LINKS: [Link; 2] = [Link::Shared, Link::Archive];
const FLAGS: [&str; 1] = ["-std=gnu99"];

#[test]
fn the_environment_may_change_after_load() {
    for link in LINKS {
        let source = "../sheaves-preload/tests/preload/environ.c";
        let program = compile("gcc", source, &["-std=gnu99", "-DAPI"], link);
        for engine in ENGINES {
            run_ok(&program, &[], &[engine, &[("SHEAVES_RCU_STALL_MS", "50")]].concat(), LIMIT);
        }
        run_ok(&program, &[], &[("SHEAVES_RCU_RECLAIMERS", "slots")], LIMIT);
    }
}

/// What the program prints on standard error when it ends.
fn errors_of(what: &str, link: Link, variables: &[(&str, &str)]) -> String {
    let program = compile("gcc", "tests/c_api/at_exit.c", &FLAGS, link);
    let output = run(&program, &[what], variables, LIMIT);
    assert!(output.status.success(), "{what} {link:?} {variables:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// The line of statistics of the cache of a text.
fn line<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).split_whitespace().collect()
}

#[test]
fn statistics_are_printed_once_at_exit() {
    for link in LINKS {
        let text = errors_of("cache", link, &[("SHEAVES_STATS", "1")]);
        assert_eq!(text.matches("sheaves statistics: pid ").count(), 1, "{text}");
        // Name, size, and objects in use.
        assert_eq!(line(&text, "kept")[1..3], ["48", "100"], "{text}");
        let text = errors_of("heap", link, &[("SHEAVES_STATS", "json")]);
        assert!(text.starts_with("{\"schema\":") && text.lines().count() == 1, "{text}");
        assert!(text.contains("\"objects_out\":100,"), "{text}");
        assert_eq!(errors_of("nothing", link, &[("SHEAVES_STATS", "1")]), "");
    }
}

fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn statistics_and_profiles_go_to_files() {
    for link in LINKS {
        let (statistics, profile) = (file("capi-statistics"), file("capi-profile"));
        let variables = [
            ("SHEAVES_STATS", "json"),
            ("SHEAVES_STATS_FILE", statistics.to_str().unwrap()),
            ("SHEAVES_PROF", "1024"),
            ("SHEAVES_PROF_FILE", profile.to_str().unwrap()),
        ];
        assert_eq!(errors_of("heap", link, &variables), "");
        let text = std::fs::read_to_string(statistics).unwrap();
        assert!(text.starts_with("{\"schema\":") && text.lines().count() == 1, "{text}");
        let text = std::fs::read_to_string(profile).unwrap();
        assert!(text.starts_with("sheaves heap profile 1\n"), "{text}");
        assert!(text.contains("site live malloc ") && text.contains("\nmaps\n"), "{text}");
    }
}

#[test]
fn files_of_the_program_are_not_written_to() {
    let program = compile("gcc", "tests/c_api/at_exit.c", &FLAGS, Link::Shared);
    for option in ["SHEAVES_STATS", "SHEAVES_DEBUG"] {
        let opened = file("capi-opened");
        let output = run(&program, &["heap", opened.to_str().unwrap()], &[(option, "1")], LIMIT);
        assert!(output.status.success(), "{option}: {output:?}");
        assert_eq!(std::fs::read_to_string(opened).unwrap(), "", "{option}");
    }
}

#[test]
fn hardened_and_debug_mode_look_at_the_end() {
    for link in LINKS {
        let program = compile("gcc", "tests/c_api/at_exit.c", &FLAGS, link);
        let output = run(&program, &["late write"], &[("SHEAVES_HARDEN", "1")], LIMIT);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
        let text = errors_of("heap", link, &[("SHEAVES_DEBUG", "1")]);
        assert!(text.contains("not freed at the end: 300000 bytes in 100 blocks"), "{text}");
    }
}

/// It has the program's heap, and does all this for the process.
#[test]
fn the_preload_object_speaks_for_the_library() {
    for link in LINKS {
        let profile = file("capi-beside");
        let variables = [
            ("LD_PRELOAD", object().to_str().unwrap()),
            ("SHEAVES_STATS", "1"),
            ("SHEAVES_PROF", "1024"),
            ("SHEAVES_PROF_FILE", profile.to_str().unwrap()),
            ("SHEAVES_ENGINE", "warp"),
            ("SHEAVES_DEBUGG", "1"),
        ];
        let text = errors_of("heap", link, &variables);
        assert_eq!(text.matches("sheaves statistics: pid ").count(), 1, "{text}");
        assert_eq!(text.matches("SHEAVES_ENGINE=warp is ignored").count(), 1, "{text}");
        assert_eq!(text.matches("did you mean SHEAVES_DEBUG?").count(), 1, "{text}");
        let text = std::fs::read_to_string(profile).unwrap();
        assert!(text.ends_with("[vsyscall]\n") || text.contains("\nmaps\n"), "{text}");
    }
}
