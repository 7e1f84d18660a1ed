//! Stacks of samples in programs without frame pointers: in 95 % of the bytes they reach `main`,
//! `_start` or the function of a thread.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{compile_as, on_object};

/// A profile that a program has written at its end.
struct Dump(String);

/// Runs a program with a profile.
fn profiled(program: &Path, args: &[&str], name: &str) -> (Output, Dump) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stacks-{name}.dump"));
    let variables = [("SHEAVES_PROF", "4096"), ("SHEAVES_PROF_FILE", file.to_str().unwrap())];
    let output = on_object(program, args, &variables).output().unwrap();
    assert!(output.status.success(), "{output:#?}");
    (output, Dump(std::fs::read_to_string(file).unwrap()))
}

impl Dump {
    /// False, with a line, where stacks are short on this machine.
    fn has_unwinder(&self) -> bool {
        let state = self.0.lines().find_map(|line| line.strip_prefix("stacks "));
        println!("stacks: {state:?}");
        state == Some("whole")
    }

    /// The share of all bytes that were allocated below a function, by its return address.
    #[track_caller]
    fn assert_reached(&self, is_in: impl Fn(u64) -> bool) {
        let (mut reached, mut all) = (0, 0);
        for line in self.0.lines().filter(|line| line.starts_with("site live malloc ")) {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes: u64 = words[8].parse().unwrap();
            let address = |word: &&str| u64::from_str_radix(word, 16).unwrap();
            // A stack of 64 addresses is cut.
            let is_reached = words.len() - 9 == 64 || words[9..].iter().map(address).any(&is_in);
            all += bytes;
            reached += if is_reached { bytes } else { 0 };
        }
        println!("{reached} of {all} bytes");
        assert!(all > 1_000_000 && reached * 100 >= all * 95, "{reached} of {all}\n{}", self.0);
    }

    /// The address of `_start` of the program, an ELF file at its path.
    fn entry(&self, program: &Path) -> u64 {
        let program = program.canonicalize().unwrap();
        let path = program.to_str().unwrap();
        let first = self.0.lines().find(|line| line.ends_with(path)).expect("it is mapped");
        let base = u64::from_str_radix(first.split_once('-').unwrap().0, 16).unwrap();
        let image = std::fs::read(&program).unwrap();
        let entry = u64::from_le_bytes(image[24..32].try_into().unwrap());
        // Type 2 is a program that is not position-independent.
        if image[16] == 2 { entry } else { base + entry }
    }

    #[track_caller]
    fn assert_reaches_start(&self, program: &Path) {
        let entry = self.entry(program);
        self.assert_reached(|address| (entry..entry + 128).contains(&address));
    }
}

#[test]
fn of_a_program_in_c() {
    for flags in [["-O2", "-fomit-frame-pointer"], ["-O1", "-fno-omit-frame-pointer"]] {
        let program = compile_as("gcc", "stacks.c", &flags);
        let (output, dump) = profiled(&program, &[], flags[0]);
        let text = String::from_utf8(output.stdout).unwrap();
        let address = |word| u64::from_str_radix(word, 16).unwrap();
        let callers: Vec<u64> = text.split_whitespace().map(address).collect();
        if dump.has_unwinder() || flags[1].starts_with("-fno") {
            dump.assert_reached(|address| callers.contains(&address));
        }
    }
}

#[test]
fn of_a_program_in_rust() {
    const SOURCE: &str = "fn deep(levels: usize) -> Vec<String> {
        let text = std::hint::black_box(format!(\"{levels}\"));
        let mut all = if levels == 0 { Vec::new() } else { deep(levels - 1) };
        all.push(text);
        std::hint::black_box(all)
    }
    fn main() {
        (0..3000).for_each(|_| drop(deep(20)));
    }";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("stacks-program.rs"), folder.join("stacks-program"));
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("rustc");
    compiler.args(["-O", "--edition=2024", "-C", "force-frame-pointers=no", "-o"]);
    crate::c_programs::compile_with(compiler.arg(&program).arg(&source));
    let (_, dump) = profiled(&program, &[], "rust");
    if dump.has_unwinder() {
        dump.assert_reaches_start(&program);
    }
}

#[test]
fn of_python() {
    let program = PathBuf::from("/usr/bin/python3");
    if !program.exists() {
        return println!("there is no {}", program.display());
    }
    const SOURCE: &str = "sum(len(str(i) * 30) for i in range(200000))";
    let (_, dump) = profiled(&program, &["-c", SOURCE], "python");
    if dump.has_unwinder() {
        dump.assert_reaches_start(&program);
    }
}
