//! `cargo xtask dist`: packages for Debian, in `target/dist`.
//!
//! The files of `cargo xtask install`, divided among `libsheaves0` (for programs), `libsheaves-dev`
//! (for compilers) and `sheaves` (the command and its preload object). They are for the Debian
//! release on which they are made, or a later one. `--check` is in [`clean`].

pub mod clean;
mod control;
mod package;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::consumers::has;
use crate::install::{self, Place};
use crate::{header, repo};
use package::{PACKAGES, Package, Release, TARGET};

/// The programs that it needs, from Debian's `dpkg-dev` and `binutils`.
const TOOLS: [&str; 4] = ["dpkg-deb", "dpkg-shlibdeps", "dpkg-architecture", "strip"];

/// A required tool that this machine does not have.
#[must_use]
pub fn missing(root: &Path) -> Option<&'static str> {
    if !install::has_cargo_c(root) {
        return Some("cargo-c");
    }
    TOOLS.into_iter().find(|tool| !has(tool))
}

/// Makes the packages; with `check` tests them on a clean system.
pub fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    if let Some(missing) = missing(root) {
        bail!("{missing} is missing: run `cargo xtask tools`, install dpkg-dev and binutils");
    }
    let target = root.join(TARGET);
    if target.exists() {
        std::fs::remove_dir_all(&target).context(TARGET)?;
    }
    let triplet = repo::output_of(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
    let release = Release {
        version: format!("{}-1", header::version(root)?),
        architecture: repo::output_of(Command::new("dpkg").arg("--print-architecture"))?
            .trim()
            .to_owned(),
        libdir: Path::new("lib").join(triplet.trim()),
        time: time_of(root),
    };
    let stage = target.join("stage");
    let place = Place {
        prefix: "/usr".into(),
        libdir: release.libdir.clone(),
        destdir: Some(stage.clone()),
    };
    install::run(root, &place)?;
    let mut files = Vec::new();
    collect(&stage.join("usr"), &mut files)?;
    let mut packages = Vec::new();
    for package in &PACKAGES {
        packages.push(make(root, &release, package, &mut files)?);
    }
    ensure!(files.is_empty(), "no package takes {files:?}");
    lint(&packages)?;
    if check {
        clean::check(root, &target, &packages)?;
    }
    Ok(())
}

/// The time of the last change of the source.
fn time_of(root: &Path) -> String {
    let git = || {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(root);
        repo::output_of(&mut git).ok().map(|time| time.trim().to_owned())
    };
    std::env::var("SOURCE_DATE_EPOCH").ok().or_else(git).unwrap_or_else(|| "0".into())
}

/// All files and links below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(())
}

/// Makes one package from the files that it takes, and removes them from `files`.
fn make(
    root: &Path,
    release: &Release,
    package: &Package,
    files: &mut Vec<PathBuf>,
) -> anyhow::Result<PathBuf> {
    let target = root.join(TARGET);
    let (stage, tree) = (target.join("stage/usr"), target.join(package.name));
    let libdir = release.libdir.to_string_lossy();
    let begins: Vec<_> = package.takes.iter().map(|begin| begin.replace("LIB", &libdir)).collect();
    let mut left = Vec::new();
    let mut objects = Vec::new();
    for file in core::mem::take(files) {
        let path = file.strip_prefix(&stage)?.to_owned();
        let text = path.to_string_lossy();
        if !begins.iter().any(|begin| text.starts_with(begin)) {
            left.push(file);
            continue;
        }
        let to = tree.join("usr").join(&path);
        install::make_folder_of(&to)?;
        std::fs::rename(&file, &to).with_context(|| to.display().to_string())?;
        if text.contains("/man/") {
            repo::output_of(Command::new("gzip").arg("-9n").arg(&to))?;
        } else if strip(&to, &text)? {
            objects.push(to);
        }
    }
    *files = left;
    control::write(root, release, package, &tree, &objects)?;
    let name = format!("{}_{}_{}.deb", package.name, release.version, release.architecture);
    let path = target.join(name);
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&path);
    repo::output_of(build.env("SOURCE_DATE_EPOCH", &release.time))?;
    println!("dist: made {}", path.display());
    Ok(path)
}

/// Strips an object of what running programs do not need; true for an object that the loader loads.
fn strip(file: &Path, name: &str) -> anyhow::Result<bool> {
    let is_link = std::fs::symlink_metadata(file)?.is_symlink();
    let is_loaded = !is_link && (name.starts_with("bin/") || name.contains(".so"));
    let what = match (is_loaded, name.ends_with(".a")) {
        (true, _) => "--strip-unneeded",
        (false, true) => "--strip-debug",
        (false, false) => return Ok(false),
    };
    repo::output_of(Command::new("strip").arg(what).arg(file))?;
    Ok(is_loaded)
}

/// Runs lintian, Debian's policy checker, on the packages, if it is installed.
fn lint(packages: &[PathBuf]) -> anyhow::Result<()> {
    if !has("lintian") {
        println!("dist: lintian is not installed: not checked against Debian's policy");
        return Ok(());
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error"]);
    let printed = repo::output_of(lintian.args(packages))?;
    print!("{printed}");
    println!("dist: lintian finds no error");
    Ok(())
}
