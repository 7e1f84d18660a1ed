//! `cargo xtask programs`: real programs on several allocators, one after the other in turns.
//!
//! Each round runs a program once under each allocator; the order changes from round to round, so
//! that none always follows the same one.
//! Ratios are taken within a round, and reported as medians. glibc runs twice in each round: the
//! ratio of its second run to its first is the noise. Where that is too much after all rounds, the
//! program runs as many again.

mod allocator;
mod commands;
mod languages;
mod page;
mod program;
mod report;
mod server;
mod servers;
mod usage;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::consumers::has;
use crate::repo;
use allocator::Allocator;
use program::{Program, Round, Work};
use report::{Outcome, Report};

pub(crate) use allocator::{AGAIN, OURS, hardened, is_peer};
pub use usage::measured;

/// Options of the command line.
#[derive(Debug, Clone)]
pub struct Options {
    /// Three rounds of short loads instead of nine of long ones.
    pub quick: bool,
    /// Another number of rounds.
    pub rounds: Option<u16>,
    /// Where to write the samples.
    pub json: Option<PathBuf>,
    /// Where to write the page with plots.
    pub html: Option<PathBuf>,
    /// Names of allocators; all if empty.
    pub allocators: Vec<String>,
    /// Names of programs; all if empty.
    pub programs: Vec<String>,
}

/// Where databases and outputs are, below the root.
const FOLDER: &str = "target/programs";

/// A program whose noise is more than this runs as many rounds again.
const NOISE_MAX: f64 = 0.02;

/// All programs.
fn programs() -> Vec<Program> {
    let ended = commands::PROGRAMS.iter().chain(&languages::PROGRAMS);
    servers::PROGRAMS.iter().chain(ended).copied().collect()
}

/// Runs the programs and prints the report.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<()> {
    let programs = chosen(options)?;
    // Before the run, which takes long.
    for file in [&options.json, &options.html].into_iter().flatten() {
        std::fs::File::create(file).with_context(|| file.display().to_string())?;
    }
    install_missing(&programs)?;
    let folder = root.join(FOLDER);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).context(FOLDER)?;
    }
    std::fs::create_dir_all(&folder)?;
    let names: Vec<&'static str> = allocator::NAMES
        .into_iter()
        .filter(|name| *name == allocator::BASE || wanted(&options.allocators, name))
        .collect();
    let allocators = allocator::all(root, &folder, &names)?;
    let mut report = Report::new(&allocators);
    for program in &programs {
        let outcome = run_program(program, &folder, &allocators, options);
        let outcome = outcome.with_context(|| format!("program {}", program.name))?;
        print!("{}", report.add(program.name, program.what, outcome));
        // After each program: all of them take long.
        if let Some(file) = &options.json {
            let json = serde_json::to_string(&report)?;
            std::fs::write(file, json + "\n").with_context(|| file.display().to_string())?;
        }
        if let Some(file) = &options.html {
            page::write(root, &folder, &report, file).context("the page")?;
        }
    }
    print!("{}", report.summary());
    Ok(())
}

fn wanted(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|wanted| wanted == name)
}

fn chosen(options: &Options) -> anyhow::Result<Vec<Program>> {
    let mut programs = programs();
    for name in &options.allocators {
        let known = allocator::NAMES;
        ensure!(known.contains(&name.as_str()), "no allocator `{name}`: {}", known.join(", "));
    }
    for name in &options.programs {
        if !programs.iter().any(|program| program.name == name) {
            let known: Vec<_> = programs.iter().map(|program| program.name).collect();
            bail!("no program `{name}`: {}", known.join(", "));
        }
    }
    programs.retain(|program| wanted(&options.programs, program.name));
    Ok(programs)
}

/// Installs what is missing by apt, without starting a server.
fn install_missing(programs: &[Program]) -> anyhow::Result<()> {
    let needs = programs.iter().flat_map(|program| program.needs);
    let is_there = |name: &str| has(name) || name.starts_with('/') && Path::new(name).exists();
    let mut packages: Vec<&str> =
        needs.filter(|(name, _)| !is_there(name)).map(|(_, package)| *package).collect();
    let libraries = [
        ("libjemalloc.so.2", "libjemalloc2"),
        ("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
    ];
    let known = repo::output_of(std::process::Command::new("ldconfig").arg("-p"))?;
    packages.extend(libraries.iter().filter(|(name, _)| !known.contains(name)).map(|(_, p)| *p));
    if packages.is_empty() {
        return Ok(());
    }
    println!("programs: installs {}", packages.join(", "));
    let mut apt = std::process::Command::new("apt-get");
    apt.args(["install", "-q", "-y", "--no-install-recommends"]).args(&packages);
    repo::output_of(apt.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1"))?;
    Ok(())
}

fn run_program(
    program: &Program,
    folder: &Path,
    allocators: &[Allocator],
    options: &Options,
) -> anyhow::Result<Outcome> {
    let base = &allocators[0];
    let seconds = if options.quick { 3 } else { 10 };
    let folder = folder.join(program.folder);
    let work = Work { folder, base: base.preload.clone(), seconds, is_quick: options.quick };
    if !work.folder.exists() {
        std::fs::create_dir(&work.folder)?;
        (program.set_up)(&work).context("its preparation")?;
    }
    let rounds = options.rounds.map_or(if options.quick { 3 } else { 9 }, usize::from);
    let mut outcome = Outcome::new(allocators.len());
    // The first run reads files from the disk.
    (program.run)(&Round { work: &work, preload: base.preload.clone() })?;
    let mut run_all = |first: usize| -> anyhow::Result<f64> {
        for round in first..first + rounds {
            run_round(program, &work, allocators, round, &mut outcome)?;
        }
        Ok(allocators
            .iter()
            .position(|it| it.name == AGAIN)
            .map_or(0.0, |it| outcome.noise(it).unwrap_or_default()))
    };
    let mut noise = run_all(0)?;
    if noise > NOISE_MAX && (!options.quick || options.rounds.is_some()) {
        noise = run_all(rounds)?;
    }
    if noise > NOISE_MAX {
        println!("programs: {}: glibc differs from itself by {:.1} %", program.name, noise * 100.0);
    }
    Ok(outcome)
}

/// The allocator, by number, of a step of a round. Over `count` rounds, if that is even, each comes
/// once at each step, and follows each other one once: a Latin square of Williams'.
fn at_step(round: usize, step: usize, count: usize) -> usize {
    let zigzag = if step.is_multiple_of(2) { step / 2 } else { count - step.div_ceil(2) };
    (round + zigzag) % count
}

/// Runs the program once under each allocator.
fn run_round(
    program: &Program,
    work: &Work,
    allocators: &[Allocator],
    round: usize,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for step in 0..allocators.len() {
        let index = at_step(round, step, allocators.len());
        if outcome.is_left_out(index) {
            continue;
        }
        let Allocator { name, preload } = &allocators[index];
        match (program.run)(&Round { work, preload: preload.clone() }) {
            Ok(sample) => outcome.add(index, sample),
            // A program may not run on an allocator: php ends with SIGSEGV on most.
            Err(error) if is_peer(name) => {
                println!("programs: {} on {name}: {error:#}", program.name);
                outcome.leave_out(index);
            }
            Err(error) => return Err(error.context(*name)),
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/unit/programs_order.rs"]
mod tests;
