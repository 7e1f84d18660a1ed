//! `sheaves prof` of real programs under the preload object, and of what is no profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use predicates::str::contains;
use tempfile::TempDir;

use crate::real_object::sheaves_as_installed;
use crate::stand_in::{gcc, sheaves};

/// The functions of `sites.cpp`, each of which keeps 2000 blocks of 1000 bytes.
const SITES: [&str; 7] = [
    "site_malloc",
    "site_calloc",
    "site_realloc",
    "site_new",
    "site_array",
    "site_aligned",
    "site_posix",
];

/// Compiles `sites.cpp`, runs it with profiling and another option, and returns the folder and the
/// dump in it.
fn dump(flags: &[&str], option: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let (program, dump) = (directory.path().join("sites"), directory.path().join("dump"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/sites.cpp");
    let mut arguments = vec!["-x", "c++", "-std=c++17", "-O1", "-fno-optimize-sibling-calls"];
    arguments.extend(flags);
    arguments.extend([source.to_str().expect("UTF-8"), "-o", program.to_str().expect("UTF-8")]);
    arguments.push("-lstdc++");
    assert!(gcc(&arguments), "gcc compiles");
    run_profiled(&program, &dump, option);
    (directory, dump)
}

fn run_profiled(program: &Path, dump: &Path, option: &str) {
    sheaves_as_installed()
        .arg("run")
        .arg(program)
        .env("SHEAVES_PROF", "4096")
        .env(option, "1")
        .env("SHEAVES_PROF_FILE", dump)
        .assert()
        .success()
        .stderr("");
}

/// Of a release build, which has no frame pointers.
#[test]
fn inlined_functions_of_rust_are_named() {
    const SOURCE: &str = "#[inline(always)]\nfn inlined_inner() -> Vec<u8> { \
         std::hint::black_box(Vec::with_capacity(1000)) }\n\
         #[inline(always)]\nfn inlined_outer(all: &mut Vec<Vec<u8>>) { \
         all.push(inlined_inner()); }\n\
         #[inline(never)]\nfn called(all: &mut Vec<Vec<u8>>) { \
         for _ in 0..2000 { inlined_outer(all); } }\n\
         fn main() { let mut all = Vec::new(); called(&mut all); std::mem::forget(all); }\n";
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("inlined.rs"), SOURCE).expect("written");
    let mut compiler = Command::new("rustc");
    compiler.args(["--edition=2021", "-O", "-g", "-o"]).args([path("inlined"), path("inlined.rs")]);
    assert!(compiler.status().expect("runs").success(), "it compiles");
    run_profiled(&path("inlined"), &path("dump"), "UNUSED");
    let output = sheaves().args(["prof", "heap"]).arg(path("dump")).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let names = ["inlined_inner ", "inlined_outer ", "called "];
    let places = names.map(|name| text.find(&format!("inlined::{name}")));
    assert!(places.is_sorted() && places[0].is_some(), "{places:?} {text}");
}

#[test]
fn sites_have_what_they_allocated_and_their_callers() {
    check_sites("UNUSED");
}

#[test]
fn a_hardened_process_has_the_same_sites() {
    check_sites("SHEAVES_HARDEN");
}

fn check_sites(option: &str) {
    let (directory, dump) = dump(&["-g", "-fno-omit-frame-pointer"], option);
    let output = sheaves().args(["prof", "heap"]).arg(&dump).args(["--count", "99"]).output();
    let text = String::from_utf8(output.expect("runs").stdout).expect("UTF-8");
    for site in SITES {
        let parts = text.split("\n\n").filter(|part| part.contains(site));
        let objects = |part: &str| {
            let words: Vec<&str> = part.split_whitespace().collect();
            let place = words.iter().position(|word| *word == "objects").expect("a number");
            words[place - 1].parse::<f64>().expect("a number")
        };
        let sum: f64 = parts.clone().map(objects).sum();
        // About 470 samples: five standard errors.
        assert!((sum - 2000.0).abs() < 450.0, "{site}: {sum} objects\n{text}");
        assert!(
            parts.clone().all(|part| part.contains("outer") && part.contains("main")),
            "{text}"
        );
        assert!(parts.clone().all(|part| part.contains("sites.cpp:")), "{text}");
    }
    let (file, svg) = (directory.path().join("heap.pb.gz"), directory.path().join("heap.svg"));
    sheaves()
        .args(["prof", "heap"])
        .arg(&dump)
        .arg("-o")
        .arg(&file)
        .arg("--svg")
        .arg(&svg)
        .assert()
        .success()
        .stdout("");
    let svg = std::fs::read_to_string(svg).expect("written");
    assert!(svg.contains("<svg") && SITES.iter().all(|site| svg.contains(site)));
    is_read_by_pprof(&file);
    // The same dump twice has no difference.
    sheaves()
        .args(["prof", "diff"])
        .args([&dump, &dump])
        .assert()
        .success()
        .stdout("+0 B in all\n");
}

/// The tool of Go reads the file, where it is installed.
fn is_read_by_pprof(file: &Path) {
    match Command::new("go")
        .args(["tool", "pprof", "-sample_index=inuse_space", "-top"])
        .arg(file)
        .output()
    {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert!(SITES.iter().all(|site| text.contains(site)), "{text}");
        }
        Err(_) => println!("skipped: go is not installed"),
    }
}

#[test]
fn without_symbols_there_are_offsets() {
    let (_directory, dump) = dump(&["-s", "-fomit-frame-pointer"], "UNUSED");
    sheaves().args(["prof", "heap"]).arg(&dump).assert().success().stdout(contains("sites+0x"));
}

#[test]
fn what_cannot_be_read_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("UTF-8").to_owned();
    let (other, empty, bytes) = (path("other"), path("empty"), path("bytes"));
    std::fs::write(&other, "heap profile: 1: 2\n").expect("written");
    std::fs::write(&empty, "sheaves heap profile 1\nend\n").expect("written");
    std::fs::write(&bytes, [0xff, 0xfe]).expect("written");
    let (absent, svg) = (path("absent"), path("no/svg"));
    for (arguments, status, words) in [
        (&["heap", absent.as_str()][..], 66, "is not there"),
        (&["heap", directory.path().to_str().expect("UTF-8")], 66, "cannot read"),
        (&["heap", &other], 65, "not a heap profile"),
        (&["heap", &bytes], 65, "not a heap profile"),
        (&["heap", &empty, "--svg", &svg], 65, "nothing to draw"),
        (&["heap", &empty, "-o", &svg], 73, "cannot write"),
        (&["diff", &empty, &other], 65, "not a heap profile"),
    ] {
        let output = sheaves().arg("prof").args(arguments).assert().code(status).stdout("");
        let text = String::from_utf8(output.get_output().stderr.clone()).expect("UTF-8");
        assert!(text.starts_with("sheaves: ") && text.contains(words), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text:?}");
    }
    sheaves().args(["prof", "heap", &empty]).assert().success().stdout(contains("0 B in use"));
}
