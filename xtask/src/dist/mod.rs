//! `cargo xtask dist`: packages for Debian, in `target/dist`.
//!
//! The files of `cargo xtask install`, divided among `libsheaves0` (for programs), `libsheaves-dev`
//! (for compilers) and `sheaves` (the command and its preload object). They are for the Debian
//! release on which they are made, or a later one. `--check` is in [`clean`].
//!
//! Packages for another architecture go to a folder of its own, `target/dist-arm64`. Debian's
//! compiler for it links them; manual pages and completion scripts come from a command for this
//! machine.

pub mod clean;
mod control;
mod package;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::arch::{Arch, Libc};
use crate::consumers::has;
use crate::install::{self, Place};
use crate::{header, repo};
use package::{PACKAGES, Package, Release};

/// The programs that it needs, each with its package.
const TOOLS: [(&str, &str); 4] = [
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("dpkg-architecture", "dpkg-dev"),
    ("strip", "binutils"),
];

/// What this machine lacks, and the remedy. `other` is an architecture that is not its own.
#[must_use]
pub fn missing(root: &Path, other: Option<Arch>) -> Option<String> {
    if !install::has_cargo_c(root) {
        return Some("cargo-c is missing: run `cargo xtask tools`".into());
    }
    let own = TOOLS.map(|(tool, package)| (tool.to_owned(), package.to_owned()));
    let tools = own.into_iter().chain(other.iter().flat_map(|arch| arch.tools()));
    for (tool, package) in tools {
        if !has(&tool) {
            return Some(format!("{tool} is missing: install {package}"));
        }
    }
    let arch = other?;
    let target = repo::require_target(root, &arch.target(Libc::Gnu));
    let failure = target.and_then(|()| control::libraries_for(arch)).err()?;
    Some(failure.to_string())
}

/// Makes the packages, for this machine's architecture unless another is given; with `check` tests
/// them on a clean system.
pub fn run(root: &Path, arch: Option<Arch>, check: bool) -> anyhow::Result<()> {
    let other = arch.filter(|arch| !arch.is_here());
    ensure!(!check || other.is_none(), "--check runs the packages: it is for this architecture");
    let packages = make_all(root, other, false)?;
    if check {
        let target = packages[0].parent().context("a file in a folder")?;
        clean::check(root, target, &packages)?;
    }
    Ok(())
}

/// Makes the packages with the command of the tests: they are made as for a release, in less time.
pub fn try_all(root: &Path) -> anyhow::Result<()> {
    make_all(root, None, true).map(drop)
}

fn make_all(root: &Path, other: Option<Arch>, is_trial: bool) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(missing) = missing(root, other) {
        bail!("{missing}");
    }
    let release = release(root, other)?;
    let target = &release.target;
    if target.exists() {
        std::fs::remove_dir_all(target).with_context(|| target.display().to_string())?;
    }
    let stage = target.join("stage");
    let place = Place {
        prefix: "/usr".into(),
        libdir: release.libdir.clone(),
        destdir: Some(stage.clone()),
        other,
        is_trial,
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
    Ok(packages)
}

fn release(root: &Path, other: Option<Arch>) -> anyhow::Result<Release> {
    let (folder, architecture, triplet) = match other {
        Some(arch) => (format!("dist-{}", arch.debian()), arch.debian().into(), arch.triplet()),
        None => (
            "dist".into(),
            repo::output_of(Command::new("dpkg").arg("--print-architecture"))?,
            repo::output_of(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?,
        ),
    };
    Ok(Release {
        target: root.join("target").join(folder),
        version: format!("{}-1", header::version(root)?),
        architecture: architecture.trim().to_owned(),
        other,
        libdir: Path::new("lib").join(triplet.trim()),
        time: time_of(root),
    })
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
    let target = &release.target;
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
        } else if strip(release, &to, &text)? {
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
fn strip(release: &Release, file: &Path, name: &str) -> anyhow::Result<bool> {
    let is_link = std::fs::symlink_metadata(file)?.is_symlink();
    let is_loaded = !is_link && (name.starts_with("bin/") || name.contains(".so"));
    let what = match (is_loaded, name.ends_with(".a")) {
        (true, _) => "--strip-unneeded",
        (false, true) => "--strip-debug",
        (false, false) => return Ok(false),
    };
    let program = release.other.map_or("strip".into(), Arch::strip);
    repo::output_of(Command::new(program).arg(what).arg(file))?;
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
