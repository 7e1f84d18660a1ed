//! Builds what runs in the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde::Deserialize;

use super::options::Options;
use crate::repo;

/// What cargo reports of a file that it has built.
#[derive(Deserialize)]
struct Artifact {
    reason: String,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Puts all programs into a folder of the machine; the names of the tests among them.
pub(super) fn put(root: &Path, options: &Options, to: &Path) -> anyhow::Result<Vec<String>> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    let mut names = Vec::new();
    for tests in &options.tests {
        let (package, test) = tests.split_once(':').unwrap_or((tests, ""));
        let mut arguments = vec!["test", "--no-run", "--package", package];
        if !test.is_empty() {
            arguments.extend(["--test", test]);
        }
        for (name, file) in build(root, options, &arguments)? {
            put_stripped(options, &file, &to.join(&name))?;
            names.push(name);
        }
    }
    if options.tools {
        let arguments = [
            "build",
            "--release",
            "--package",
            "sheaves-cli",
            "--package",
            "sheaves-preload",
            "--package",
            "sheaves-capi",
        ];
        for (name, file) in build(root, options, &arguments)? {
            put_stripped(options, &file, &to.join(name))?;
        }
        let release = repo::release_folder(root, &options.arch.target(options.libc()))?;
        put_stripped(
            options,
            &release.join("libsheaves_preload.so"),
            &to.join("libsheaves_preload.so"),
        )?;
        put_stripped(options, &release.join("libsheaves.so"), &to.join("libsheaves.so.0"))?;
        put_examples(root, options, &release, to)?;
    }
    for file in &options.file {
        repo::output_of(Command::new("cp").arg("-a").arg(file).arg(to))?;
    }
    Ok(names)
}

/// The executables that cargo builds, with the names of their targets.
fn build(
    root: &Path,
    options: &Options,
    arguments: &[&str],
) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut cargo = repo::cargo(root);
    cargo.args(arguments).arg("--message-format=json-render-diagnostics");
    options.arch.build_for(&mut cargo, options.libc());
    cargo.stderr(std::process::Stdio::inherit());
    let printed = repo::output_of(&mut cargo)?;
    let mut built = Vec::new();
    for line in printed.lines() {
        let Ok(artifact) = serde_json::from_str::<Artifact>(line) else { continue };
        if let ("compiler-artifact", Some(target), Some(file)) =
            (artifact.reason.as_str(), artifact.target, artifact.executable)
        {
            built.push((target.name, file));
        }
    }
    Ok(built)
}

/// Copies a program without what only debuggers need.
fn put_stripped(options: &Options, file: &Path, to: &Path) -> anyhow::Result<()> {
    let mut strip = Command::new(options.arch.strip());
    repo::output_of(strip.arg("--strip-debug").arg(file).arg("-o").arg(to))?;
    Ok(())
}

/// The examples in C, linked to the library.
fn put_examples(root: &Path, options: &Options, release: &Path, to: &Path) -> anyhow::Result<()> {
    let include = root.join(repo::CAPI).join("include");
    for (name, source) in repo::c_examples(root)? {
        let mut compiler = Command::new(options.arch.compiler());
        compiler.arg("-O2").arg("-pthread").arg("-I").arg(&include).arg(&source);
        compiler
            .arg("-o")
            .arg(to.join(format!("example-{name}")))
            .arg("-L")
            .arg(release)
            .arg("-lsheaves")
            .arg("-Wl,-rpath,$ORIGIN");
        repo::output_of(&mut compiler)?;
    }
    Ok(())
}
