//! `cargo xtask urcu-examples`: the examples of liburcu, built unchanged against the headers of
//! this repository, and liburcu's hash table on its flavour.
//!
//! Only the flags for headers and libraries differ from those in the examples' own makefiles. Each
//! example is also built with liburcu, and has to print the same words. Words, because examples
//! that print a hash table do so in a random order.

use core::time::Duration;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};

use crate::repo;

/// Where Debian's `liburcu-dev` installs them.
const EXAMPLES: &str = "/usr/share/doc/liburcu-dev/examples";
const CRATE: &str = "crates/sheaves-capi";
/// Our include folders, in search order.
const INCLUDES: [&str; 2] = ["include/sheaves-urcu", "include"];
/// The one header and library of liburcu that are kept: its hash table.
const TABLE: (&str, &str) = ("rculfhash.h", "-lurcu-cds");
const LIMIT: Duration = Duration::from_secs(60);

/// True when the examples are installed.
#[must_use]
pub fn are_there() -> bool {
    Path::new(EXAMPLES).is_dir()
}

/// Builds and runs all examples, then the hash table for `table_ms`.
pub fn run(root: &Path, table_ms: u32) -> anyhow::Result<()> {
    ensure!(are_there(), "{EXAMPLES} does not exist: install liburcu-dev");
    let bench = Bench::new(root)?;
    bench.compare_headers()?;
    let mut sources = Vec::new();
    for folder in std::fs::read_dir(EXAMPLES)?.filter_map(Result::ok) {
        let Ok(files) = std::fs::read_dir(folder.path()) else { continue };
        let files = files.filter_map(Result::ok).map(|file| file.path());
        sources.extend(files.filter(|path| path.extension().is_some_and(|is| is == "c")));
    }
    sources.sort();
    ensure!(!sources.is_empty(), "no examples in {EXAMPLES}");
    for source in &sources {
        bench.try_example(source).with_context(|| source.display().to_string())?;
    }
    println!("urcu-examples: {} examples print what they print with liburcu", sources.len());
    let table = root.join(CRATE).join("tests/urcu/lfht.c");
    let program = bench.compile(&table, &["-lurcu-cds".into()], true)?;
    let output = output_of(&program, &[&table_ms.to_string()])?;
    ensure!(output.ends_with("ok\n"), "the hash table: {output}");
    print!("urcu-examples: hash table: {output}");
    Ok(())
}

/// Paths of a build.
pub(crate) struct Bench {
    root: PathBuf,
    target: PathBuf,
}

impl Bench {
    pub(crate) fn new(root: &Path) -> anyhow::Result<Bench> {
        let mut cargo = repo::cargo(root);
        cargo.args(["build", "--quiet", "--release", "-p", "sheaves-capi"]);
        repo::output_of(&mut cargo)?;
        let target = repo::release_folder(root, "")?;
        // The loader searches for this name.
        let _ = std::os::unix::fs::symlink("libsheaves.so", target.join("libsheaves.so.0"));
        let folder = target.join("urcu-examples");
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Bench { root: root.to_owned(), target })
    }

    fn try_example(&self, source: &Path) -> anyhow::Result<()> {
        let libraries = libraries_of(source)?;
        let ours = self.compile(source, &libraries, true)?;
        let needed = repo::output_of(Command::new("readelf").arg("-d").arg(&ours))?;
        let has_table = uses_table(source)?;
        let is_other = |line: &str| {
            line.contains("NEEDED")
                && line.contains("liburcu")
                && !(has_table && line.contains("liburcu-cds"))
        };
        ensure!(!needed.lines().any(is_other), "still linked to liburcu");
        let theirs = self.compile(source, &libraries, false)?;
        let (ours, theirs) = (words_of(&ours)?, words_of(&theirs)?);
        ensure!(ours == theirs, "prints {ours:?}, with liburcu {theirs:?}");
        Ok(())
    }

    /// Each header brings the standard headers that liburcu's brings: programs rely on that.
    fn compare_headers(&self) -> anyhow::Result<()> {
        let folder = self.root.join(CRATE).join(INCLUDES[0]);
        let mut count = 0;
        for place in ["", "urcu/"] {
            for entry in std::fs::read_dir(folder.join(place))?.filter_map(Result::ok) {
                let header = format!("{place}{}", entry.file_name().display());
                for flag in ["-U_LGPL_SOURCE", "-D_LGPL_SOURCE"] {
                    // Not those that liburcu has not.
                    let Ok(theirs) = self.standard_headers(&header, flag, false) else { continue };
                    let ours = self.standard_headers(&header, flag, true)?;
                    let missing: Vec<_> = theirs.difference(&ours).collect();
                    ensure!(missing.is_empty(), "<{header}> with {flag} lacks {missing:?}");
                    count += 1;
                }
            }
        }
        println!("urcu-examples: {} headers bring the standard ones of liburcu's", count / 2);
        Ok(())
    }

    /// The standard headers that come with a header: those of programs, not of other headers.
    fn standard_headers(
        &self,
        header: &str,
        flag: &str,
        ours: bool,
    ) -> anyhow::Result<BTreeSet<PathBuf>> {
        let mut gcc = Command::new("gcc");
        gcc.args(["-M", flag, "-include", header, "-xc", "/dev/null"]);
        if ours {
            self.add_includes(&mut gcc);
        }
        let rule = repo::output_of(&mut gcc)?;
        let is_standard = |path: &PathBuf| {
            let folder = path.parent().and_then(Path::file_name);
            folder.is_some_and(|name| name == "include" || name == "sys")
        };
        let paths = rule.split_whitespace().map(PathBuf::from).filter(is_standard);
        Ok(paths.filter(|path| path.starts_with("/usr")).collect())
    }

    fn add_includes(&self, gcc: &mut Command) {
        for include in INCLUDES {
            gcc.arg("-I").arg(self.root.join(CRATE).join(include));
        }
    }

    /// Compiles a program on this library, or on liburcu.
    fn compile(&self, source: &Path, libraries: &[String], ours: bool) -> anyhow::Result<PathBuf> {
        self.compile_with(source, &[], libraries, ours)
    }

    /// [`Bench::compile`] with more flags.
    pub(crate) fn compile_with(
        &self,
        source: &Path,
        flags: &[&str],
        libraries: &[String],
        ours: bool,
    ) -> anyhow::Result<PathBuf> {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let library = if ours { "sheaves" } else { "liburcu" };
        let program = self.target.join(format!("urcu-examples/{stem}-{library}"));
        let mut gcc = Command::new("gcc");
        gcc.args(["-g", "-O2", "-Wall", "-Werror"]).args(flags);
        if ours {
            self.add_includes(&mut gcc);
        }
        gcc.arg("-o").arg(&program).arg(source);
        if ours {
            gcc.arg("-L").arg(&self.target).arg("-lsheaves");
            gcc.arg(format!("-Wl,-rpath,{}", self.target.display()));
        }
        let has_table = uses_table(source)?;
        let wanted = |library: &&String| !ours || (has_table && *library == TABLE.1);
        gcc.args(libraries.iter().filter(wanted)).arg("-lpthread");
        repo::output_of(&mut gcc)?;
        Ok(program)
    }
}

/// True when a program uses the hash table.
fn uses_table(source: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read_to_string(source).context(source.display().to_string())?;
    Ok(text.contains(TABLE.0))
}

/// The libraries in the example's own makefile.
fn libraries_of(source: &Path) -> anyhow::Result<Vec<String>> {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let makefile = source.with_file_name(format!("Makefile.{stem}"));
    let text = std::fs::read_to_string(&makefile).context(makefile.display().to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("LIBS"));
    let libraries = line.unwrap_or("").trim_start_matches([' ', '=']);
    Ok(libraries.split_whitespace().map(str::to_owned).collect())
}

/// The words that a program prints, sorted.
fn words_of(program: &Path) -> anyhow::Result<Vec<String>> {
    let mut words: Vec<_> =
        output_of(program, &[])?.split_whitespace().map(str::to_owned).collect();
    words.sort();
    Ok(words)
}

/// The output of a program that succeeds in time.
pub(crate) fn output_of(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let begun = Instant::now();
    while child.try_wait()?.is_none() {
        if begun.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("{} does not end", program.display());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{} ended with {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?)
}
