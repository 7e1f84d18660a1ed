//! The figures in BENCHMARKS.md, docs/references.md and the README, made from reports of the bench.
//!
//! `docs/benchmarks/MACHINE/TABLE.json` is a report that was made on that machine. The text between
//! two marks in each document is made from these files.

mod lines;
mod number;
mod programs;
mod readme;
mod references;

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::repo;
use lines::{LINES, Report, about, figures, name_of, report_in};

/// The reports, in a folder for each machine.
const REPORTS: &str = "docs/benchmarks";
const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- /figures -->\n";

/// What is measured: the name of a report, and the arguments of the bench.
const TABLES: [(&str, &[&str]); 18] = [
    ("pair", &["pair", "--sizes", "64,4096"]),
    ("eight", &["pair/eight", "--sizes", "4096"]),
    ("batch", &["batch/shuffled", "--sizes", "64,4096"]),
    ("remote", &["remote/1to1", "--sizes", "1024"]),
    ("replace", &["replace"]),
    ("large", &["large/touched", "--sizes", "256,4096"]),
    ("alive", &["large/alive-1t/5-25-touched"]),
    ("mixed", &["mixed/2t-25", "--sizes", "5000"]),
    ("footprint", &["footprint/shift"]),
    ("slabtest", &["slabtest/2", "--sizes", "64"]),
    ("readers", &["readers/enter-leave"]),
    ("counter", &["counter"]),
    ("dispose", &["dispose"]),
    ("synchronize", &["synchronize"]),
    ("map", &["map"]),
    ("bulk", &["bulk"]),
    ("percpu", &["percpu"]),
    ("worst", &["worst/free"]),
];
/// The table whose heaps are too small at a first look.
const WHOLE: &str = "worst";

/// Writes the figures into the documents; with `check` fails if they are not up to date. With
/// `machine` measures before that, which takes 17 minutes on an idle machine, and stores the
/// reports under that name.
pub fn run(root: &Path, check: bool, machine: Option<&str>) -> anyhow::Result<()> {
    if let Some(machine) = machine {
        measure(root, &root.join(REPORTS).join(machine))?;
    }
    let mut machines = folders(&root.join(REPORTS))?;
    machines.sort();
    let all: String = machines.iter().map(|folder| section(folder)).collect::<Result<_, _>>()?;
    replace(&root.join("BENCHMARKS.md"), &all, check)?;
    let all: String =
        machines.iter().map(|folder| references::section(folder)).collect::<Result<_, _>>()?;
    replace(&root.join("docs/references.md"), &all, check)?;
    replace(&root.join("README.md"), &readme::figures_of(&machines)?, check)
}

fn measure(root: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, arguments) in TABLES {
        let file = folder.join(format!("{name}.json"));
        let mut bench = repo::cargo(root);
        bench.args(["run", "--quiet", "--release", "-p", "sheaves-bench", "--features", "peers"]);
        bench.arg("--").args(arguments).args((name != WHOLE).then_some("--quick"));
        bench.arg("--json").arg(&file);
        print!("{}", repo::output_of(&mut bench)?);
        // Without what nothing is made of here, and without the name of the kernel's build.
        let mut report: Report = report_in(folder, name)?.context("the bench wrote no report")?;
        let version = report.machine.kernel.split(['.', '-']).take(2).collect::<Vec<_>>().join(".");
        report.machine.kernel = version;
        fs::write(&file, serde_json::to_string(&report)? + "\n")?;
    }
    Ok(())
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

fn section(folder: &Path) -> anyhow::Result<String> {
    let mut table =
        "| workload | Sheaves | best peer | ratio | table |\n|---|--:|--:|--:|---|\n".to_owned();
    let mut measured = Vec::new();
    let name = name_of(folder);
    for line in &LINES {
        let Some(figures) = figures(line, folder)? else { continue };
        let _ = writeln!(table, "| {} | {} | `{}` |", line.words, figures.cells(), line.table);
        measured.push((line.table, figures.machine));
    }
    let programs = programs::all(folder)?;
    let about = about(&name, &measured);
    Ok(format!("### {name}\n\n{about}\n\n{table}\n{programs}"))
}

/// Replaces the text between the marks in a document; with `check` fails if it would change.
pub(crate) fn replace(document: &Path, figures: &str, check: bool) -> anyhow::Result<()> {
    let context = || document.display().to_string();
    let text = fs::read_to_string(document).with_context(context)?;
    let (before, rest) =
        text.split_once(BEGIN).context("no mark for figures").with_context(context)?;
    let (_, after) = rest.split_once(END).context("no end of figures").with_context(context)?;
    let new = format!("{before}{BEGIN}{figures}{END}{after}");
    if check {
        anyhow::ensure!(new == text, "{} is stale: run `cargo xtask benchmarks`", context());
        return Ok(());
    }
    fs::write(document, new).with_context(context)
}
