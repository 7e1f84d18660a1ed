//! The planted set: small programs that each commit one error of memory on purpose
//! (`tests/planted/planted.c`), in each mode, and with glibc's malloc.
//!
//! An error is *stopped* if the process ends by a signal before the error had a consequence, and
//! *harmless* if it never has one. `tests/planted/results.txt` has what is expected of each
//! program; `SHEAVES_TEST_WRITE=1` writes it anew. Programs on size classes run with the preload
//! object, those on object caches are linked to the C library.

#[expect(dead_code, reason = "shared with the tests of the preload object, which use all of it")]
#[path = "preload/c_programs.rs"]
mod c_programs;

use core::fmt::Write as _;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use c_programs::{build, compile_to, object, run_within};

const LIMIT: Duration = Duration::from_secs(60);

/// How the programs run.
struct Mode {
    name: &'static str,
    /// An option and its value.
    option: (&'static str, &'static str),
    /// The least share of programs whose error is stopped or harmless, in percent.
    least: usize,
}

const MODES: [Mode; 5] = [
    Mode { name: "level 1", option: ("SHEAVES_HARDEN", "1"), least: 93 },
    Mode { name: "level 2", option: ("SHEAVES_HARDEN", "2"), least: 97 },
    Mode { name: "debug", option: ("SHEAVES_DEBUG", "1"), least: 99 },
    // From here on what happens depends on chance, and there is no promise.
    Mode { name: "default", option: ("SHEAVES_HARDEN", "0"), least: 0 },
    Mode { name: GLIBC, option: ("SHEAVES_HARDEN", "0"), least: 0 },
];
const GLIBC: &str = "glibc";
/// The option of an allocator that is not Sheaves.
const NO_OPTION: &str = "SHEAVES_TEST_NO_OPTION";
/// Modes whose results are those of the table.
const PROMISED: usize = 3;

const OUTSIDE: &[&str] =
    &["over-1", "over-32", "over-memcpy", "over-stride", "under-1", "under-32", "under-stride"];
const LIFETIMES: &[&str] = &[
    "write-after-free",
    "read-after-free",
    "write-after-reuse",
    "read-after-reuse",
    "double-free",
    "double-free-interleaved",
    "double-free-delayed",
    "double-free-after-reuse",
    "uninitialised",
];
const INVALID: &[&str] = &["free-interior", "free-middle", "free-unaligned"];
/// Late reuse: what is in use again cannot be told from what is free.
const LATE: &[&str] = &["write-after-late-reuse", "double-free-after-late-reuse"];
const ELSEWHERE: &[&str] = &["free-stack", "free-static", "free-foreign", "free-wild"];
const REALLOC: &[&str] = &["realloc-freed", "realloc-freed-larger"];
const ZERO: &[&str] = &["zero-read", "zero-write"];
const DELETE: &[&str] = &[
    "delete-smaller-size",
    "delete-larger-size",
    "delete-array-smaller-size",
    "delete-aligned-smaller-size",
    "delete-aligned-array-size",
    "delete-alignment",
    "delete-of-array",
];
const SIZED: &[&str] =
    &["sized-smaller", "sized-larger", "sized-aligned-smaller", "sized-aligned-alignment"];

/// Likewise, but the error is made by another thread, in a handler, or in a child.
const ELSEWHERE_MADE: &[&str] = &[
    "thread-double-free",
    "thread-double-free-delayed",
    "thread-write-after-free",
    "thread-read-after-free",
    "handler-double-free",
    "handler-write-after-free",
    "child-double-free",
    "child-double-free-delayed",
    "child-write-after-free",
    "child-read-after-free",
];
const FLOOD: &[&str] = &["over-mib"];

const SMALL: &[usize] = &[16, 64, 200, 1024];
const ALL: &[usize] = &[16, 64, 200, 1024, 100_000, 3 << 20];
/// Between those.
const BETWEEN: &[usize] = &[40, 5000, 40_000, 300_000, 700_000];
const SOME: &[usize] = &[64, 1024];

/// Which kinds of errors with which sizes.
const MALLOC: &[(&[&str], &[usize])] = &[
    (OUTSIDE, ALL),
    (LIFETIMES, ALL),
    (INVALID, ALL),
    (REALLOC, ALL),
    (LATE, SOME),
    (ELSEWHERE, &[64]),
    (ZERO, &[64]),
    (SIZED, &[64, 1024, 100_000, 3 << 20]),
    (OUTSIDE, BETWEEN),
    (&["write-after-free", "double-free", "double-free-delayed"], BETWEEN),
    (FLOOD, &[64, 1024, 5000, 300_000, 700_000, 3 << 20]),
    (ELSEWHERE_MADE, &[64, 1024, 5000, 300_000]),
];
const CXX: &[(&[&str], &[usize])] = &[
    (OUTSIDE, SOME),
    (LIFETIMES, SOME),
    (INVALID, SOME),
    (FLOOD, SOME),
    (ELSEWHERE, &[64]),
    (DELETE, &[64, 1024, 100_000, 3 << 20]),
];
const CACHES: &[(&[&str], &[usize])] =
    &[(OUTSIDE, SMALL), (LIFETIMES, SMALL), (INVALID, SMALL), (ELSEWHERE, &[64])];

/// A program: its name in the table, and how it is started.
struct Program {
    name: String,
    path: PathBuf,
    preload: bool,
    kind: &'static str,
    size: usize,
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compile(name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("planted-{name}"));
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g", "-w", "-fno-builtin", "-pthread"]);
    command.arg("-I").arg(repository().join("crates/sheaves-capi/include"));
    command.args(["-x", if compiler == "g++" { "c++" } else { "c" }]);
    command.arg(repository().join("tests/planted/planted.c")).args(["-x", "none"]).args(flags);
    compile_to(&program, &mut command);
    program
}

fn programs() -> Vec<Program> {
    let object = build("sheaves-capi").join("libsheaves.a");
    let object = object.to_str().expect("a path in UTF-8");
    let sets = [
        ("malloc", compile("malloc", "gcc", &[]), MALLOC),
        ("new", compile("new", "g++", &["-fsized-deallocation"]), CXX),
        ("cache", compile("cache", "gcc", &["-DCACHES", object, "-ldl", "-lm"]), CACHES),
    ];
    let mut programs = Vec::new();
    for (set, path, combinations) in sets {
        for (kinds, sizes) in combinations {
            for (kind, size) in kinds.iter().flat_map(|kind| sizes.iter().map(move |it| (kind, it)))
            {
                let name = format!("{set} {kind} {size}");
                let (path, preload) = (path.clone(), set != "cache");
                programs.push(Program { name, path, preload, kind, size: *size });
            }
        }
    }
    programs
}

/// What becomes of the error.
fn run(program: &Program, object: &Path, mode: &Mode) -> &'static str {
    let mut command = Command::new(&program.path);
    command.args([program.kind, &program.size.to_string()]).env(mode.option.0, mode.option.1);
    if program.preload && mode.name != GLIBC {
        command.env("LD_PRELOAD", object);
    }
    let output = run_within(LIMIT, &mut command);
    let errors = String::from_utf8_lossy(&output.stderr);
    let is_reported = errors.lines().any(|line| line.starts_with("sheaves: "));
    let is_peer = mode.option.0 == NO_OPTION;
    match (output.status.code(), output.status.signal()) {
        (Some(0), _) => "harmless",
        (_, Some(_)) if is_peer => "stopped",
        (Some(_), _) if is_peer => "harm",
        (Some(1), _) => "harm",
        (Some(2), _) if mode.least == 0 => "none",
        (_, Some(libc::SIGABRT)) if is_reported || mode.least == 0 => "stopped",
        (_, Some(libc::SIGSEGV)) => "stopped",
        _ => panic!("{} {}: {}\n{errors}", mode.name, program.name, output.status),
    }
}

/// Runs all programs on all CPUs; the results by name.
fn run_all(programs: &[Program], object: &Path, mode: &Mode) -> BTreeMap<String, &'static str> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                // Relaxed: each thread gets a number of its own.
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run(program, object, mode);
                    results.lock().unwrap().insert(program.name.clone(), result);
                }
            });
        }
    });
    results.into_inner().unwrap()
}

#[test]
fn debug_mode_tells_who_freed_and_who_leaked() {
    // The program exports its functions, so that reports name them.
    let path = compile("reported", "gcc", &["-rdynamic", "-fno-omit-frame-pointer"]);
    let errors = |kind: &str, variable: &str| {
        let mut command = Command::new(&path);
        command.args([kind, "1000"]).env(variable, "1").env("LD_PRELOAD", object());
        String::from_utf8(run_within(LIMIT, &mut command).stderr).unwrap()
    };
    for kind in ["free-again", "realloc-again", "write-again"] {
        let text = errors(kind, "SHEAVES_DEBUG");
        let is_named = text.contains(" was freed last by planted_free, called by main, ");
        assert!(is_named, "{kind}: {text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
    let text = errors("leak", "SHEAVES_DEBUG");
    assert!(
        text.contains("not freed at the end: 3000 bytes in 3 blocks, call sites: 1\n"),
        "{text}"
    );
    assert!(text.contains("malloc, allocated by planted_leak, called by "), "{text}");
    assert_eq!(errors("leak", "SHEAVES_HARDEN"), "");
}

#[test]
fn errors_are_stopped_or_harmless() {
    let programs = programs();
    let is_written = std::env::var_os("SHEAVES_TEST_WRITE").is_some();
    let modes = &MODES[..if is_written { MODES.len() } else { PROMISED }];
    let results: Vec<_> = modes.iter().map(|mode| run_all(&programs, object(), mode)).collect();
    let mut table = String::from("allocator kind size: level 1, level 2, debug\n");
    for Program { name, .. } in &programs {
        let of_modes: Vec<_> = results[..PROMISED].iter().map(|results| results[name]).collect();
        let _ = writeln!(table, "{name}: {}", of_modes.join(", "));
    }
    let path = repository().join("tests/planted/results.txt");
    if is_written {
        std::fs::write(&path, &table).unwrap();
    }
    for (results, Mode { name, least, .. }) in results.iter().zip(modes) {
        let good = results.values().filter(|result| **result != "harm").count();
        println!("{name}: {good} of {} are stopped or harmless", results.len());
        assert!(good * 100 >= results.len() * least, "{name}\n{table}");
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let harms = |line: &str| line.split([':', ',']).filter(|result| *result == " harm").count();
    let changed: Vec<_> =
        table.lines().zip(expected.lines()).filter(|(is, was)| harms(is) > harms(was)).collect();
    assert_eq!(table.lines().count(), expected.lines().count());
    assert!(changed.is_empty(), "is, was: {changed:#?}");
}

/// Errors as the table of allocators names them, and the beginnings of their kinds.
const GROUPS: [(&str, &[&str]); 9] = [
    ("write past the end", &["over-"]),
    ("write before the start", &["under-"]),
    ("write into a freed block", &["write-after", "thread-write", "handler-write", "child-write"]),
    ("read of a freed block", &["read-after", "thread-read", "child-read"]),
    ("second free", &["double-", "thread-double", "handler-double", "child-double"]),
    ("free of another address", &["free-"]),
    ("`realloc` of a freed block", &["realloc-"]),
    ("free with a wrong size or alignment", &["sized-", "delete-"]),
    ("read of a new block, use of an empty one", &["uninitialised", "zero-"]),
];

/// `cargo xtask planted` names the allocators, and puts the table into SECURITY.md.
#[test]
#[ignore = "needs other allocators: run `cargo xtask planted`"]
fn allocators_beside_each_other() {
    let ours = object().to_owned();
    let named = std::env::var("SHEAVES_TEST_PLANTED_PEERS").unwrap_or_default().leak();
    let named = named.split(';').filter_map(|peer| peer.split_once('='));
    let mode = |name, option| Mode { name, option, least: 0 };
    let mut all = vec![
        (mode("Sheaves, hardened", ("SHEAVES_HARDEN", "1")), ours.clone()),
        (mode("level 2", ("SHEAVES_HARDEN", "2")), ours),
        (mode(GLIBC, (NO_OPTION, "")), PathBuf::new()),
    ];
    all.extend(named.map(|(name, object)| (mode(name, (NO_OPTION, "")), object.into())));
    let programs: Vec<_> = programs().into_iter().filter(|program| program.preload).collect();
    let results: Vec<_> =
        all.iter().map(|(mode, object)| run_all(&programs, object, mode)).collect();
    let row = |cells: Vec<String>| println!("| {} |", cells.join(" | "));
    println!();
    let names = all.iter().map(|(mode, _)| mode.name.to_owned());
    row([String::from("error, of how many")].into_iter().chain(names).collect());
    row(["---"].into_iter().chain(all.iter().map(|_| "--:")).map(String::from).collect());
    let total = ("all", &[""] as &[&str]);
    for (words, kinds) in GROUPS.into_iter().chain([total]) {
        let is_in = |it: &&Program| kinds.iter().any(|kind| it.kind.starts_with(kind));
        let names: Vec<_> = programs.iter().filter(is_in).map(|it| &it.name).collect();
        let good = |results: &BTreeMap<String, &str>| {
            names.iter().filter(|name| ["stopped", "harmless"].contains(&results[**name])).count()
        };
        let counts = results.iter().map(|results| good(results).to_string());
        row([format!("{words}, {}", names.len())].into_iter().chain(counts).collect());
    }
}
