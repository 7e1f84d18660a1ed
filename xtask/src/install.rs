//! `cargo xtask install`: installs the library by cargo-c, the command with its preload object,
//! manual pages and completion scripts.
//!
//! `crates/sheaves-capi/Cargo.toml` tells cargo-c where files go. cargo-c takes minutes to build,
//! so a command of its own does that: `cargo xtask tools`.
//!
//! Programs run while their files are replaced, and have them mapped. So everything is installed
//! into a folder below `target/` first, and each file then takes the place of the old one by a
//! rename: a program keeps what it has mapped.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::arch::{Arch, Libc};
use crate::repo;

/// The newest version that the toolchain of this repository builds.
const CARGO_C: &str = "0.10.24+cargo-0.98.0";
/// Where files are before they are installed.
const STAGE: &str = "target/install";
/// The folder of cargo-c, unless it is installed for all.
const TOOLS: &str = "target/tools";
/// Completion scripts, by shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/sheaves"),
    ("zsh", "share/zsh/vendor-completions/_sheaves"),
    ("fish", "share/fish/vendor_completions.d/sheaves.fish"),
];

/// Where to install.
#[derive(Debug, Clone)]
pub struct Place {
    /// The prefix at run time.
    pub prefix: PathBuf,
    /// Folder of libraries below the prefix.
    pub libdir: PathBuf,
    /// Prepended to the prefix while installing: for packages.
    pub destdir: Option<PathBuf>,
    /// The architecture to build for, if it is not this machine's.
    pub other: Option<Arch>,
    /// With the command of the tests, which need not be compiled again.
    pub is_trial: bool,
}

impl Place {
    /// The prefix to write to.
    fn folder(&self) -> PathBuf {
        match &self.destdir {
            Some(destdir) => destdir.join(self.prefix.strip_prefix("/").unwrap_or(&self.prefix)),
            None => self.prefix.clone(),
        }
    }
}

/// Installs everything.
pub fn run(root: &Path, place: &Place) -> anyhow::Result<()> {
    ensure!(place.prefix.is_absolute(), "the prefix begins with /");
    let built = build(root, place.other, place.is_trial)?;
    let command = match place.is_trial {
        true => tested_command(root)?,
        false => built.join("sheaves"),
    };
    // One for another machine does not run here.
    let runs = match place.other {
        Some(_) => build(root, None, false)?.join("sheaves"),
        None => command.clone(),
    };
    staged(root, place, |stage| {
        cinstall(root, stage)?;
        let folder = stage.folder();
        copy(&command, &folder.join("bin/sheaves"))?;
        // In a folder where the command looks for it; not for linking.
        let object = "libsheaves_preload.so";
        copy(&built.join(object), &folder.join("lib/sheaves").join(object))?;
        let pages = folder.join("share/man/man1");
        repo::output_of(Command::new(&runs).args(["man", "--directory"]).arg(pages))?;
        for (shell, path) in COMPLETIONS {
            let script = repo::output_of(Command::new(&runs).args(["completions", shell]))?;
            let path = folder.join(path);
            make_folder_of(&path)?;
            fs::write(&path, script).with_context(|| path.display().to_string())?;
        }
        Ok(())
    })?;
    println!("install: everything is in {}", place.folder().display());
    Ok(())
}

/// Installs into a folder in place of `/`, or of the destination, and moves all to there.
fn staged(
    root: &Path,
    place: &Place,
    install: impl FnOnce(&Place) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stage = root.join(STAGE);
    let remove = || match fs::remove_dir_all(&stage) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    remove()?;
    install(&Place { destdir: Some(stage.clone()), ..place.clone() })?;
    replace_all(&stage, place.destdir.as_deref().unwrap_or(Path::new("/")))?;
    Ok(remove()?)
}

/// Copies a folder over another one. Each file and link takes the place of an old one by a rename;
/// links come last, so that each finds its file.
pub fn replace_all(from: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let entries = fs::read_dir(from).with_context(|| from.display().to_string())?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    for entry in entries {
        let (from, to) = (entry.path(), folder.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            replace_all(&from, &to)?;
            continue;
        }
        let make = |new: &Path| match kind.is_symlink() {
            true => symlink(fs::read_link(&from)?, new),
            false => fs::copy(&from, new).map(drop),
        };
        // Removed again if it does not get its name.
        let new = tempfile::Builder::new().prefix(".sheaves-").make_in(folder, make);
        let renamed = new.and_then(|new| Ok(new.into_temp_path().persist(&to)?));
        renamed.with_context(|| to.display().to_string())?;
    }
    Ok(())
}

/// Builds the preload object, and unless that is `alone` the command; their folder.
fn build(root: &Path, other: Option<Arch>, alone: bool) -> anyhow::Result<PathBuf> {
    let mut cargo = repo::cargo(root);
    cargo.args(["build", "--quiet", "--release", "-p", "sheaves-preload"]);
    cargo.args(["-p", "sheaves-cli"].iter().filter(|_| !alone));
    let Some(arch) = other else {
        repo::output_of(&mut cargo)?;
        return repo::release_folder(root, "");
    };
    arch.build_for(&mut cargo, Libc::Gnu);
    repo::output_of(&mut cargo)?;
    repo::release_folder(root, &arch.target(Libc::Gnu))
}

/// The command that `cargo test --workspace` builds.
fn tested_command(root: &Path) -> anyhow::Result<PathBuf> {
    let mut cargo = repo::cargo(root);
    cargo.args(["test", "--quiet", "--workspace", "--test", "command", "--no-run"]);
    repo::output_of(&mut cargo)?;
    Ok(repo::release_folder(root, "")?.with_file_name("debug").join("sheaves"))
}

/// Installs the library, its headers, and the files for pkg-config and CMake.
pub fn library(root: &Path, place: &Place) -> anyhow::Result<()> {
    staged(root, place, |stage| cinstall(root, stage))
}

fn cinstall(root: &Path, place: &Place) -> anyhow::Result<()> {
    ensure!(has_cargo_c(root), "cargo-c is not installed: run `cargo xtask tools`");
    let mut cargo = cargo_c(root);
    cargo.args(["cinstall", "--release", "-p", "sheaves-capi"]);
    cargo.arg("--prefix").arg(&place.prefix).arg("--libdir").arg(&place.libdir);
    if let Some(destdir) = &place.destdir {
        cargo.arg("--destdir").arg(destdir);
    }
    if let Some(arch) = place.other {
        arch.build_for(&mut cargo, Libc::Gnu);
    }
    repo::output_of(&mut cargo).map(|_| ())
}

/// Installs cargo-c for this repository, if it is missing: about two minutes. It is built without
/// optimisation and checks of its own, since it mostly starts other programs.
pub fn tools(root: &Path) -> anyhow::Result<()> {
    if has_cargo_c(root) {
        println!("tools: cargo-c is installed");
        return Ok(());
    }
    let tools = root.join(TOOLS);
    let build = tools.join("build");
    let mut cargo = repo::cargo(root);
    cargo.args(["install", "cargo-c", "--quiet", "--locked", "--debug", "--version", CARGO_C]);
    cargo.args(["--bin", "cargo-cinstall", "--root"]).arg(&tools);
    cargo.arg("--target-dir").arg(&build);
    for option in ["DEBUG", "DEBUG_ASSERTIONS", "OVERFLOW_CHECKS"] {
        cargo.env(format!("CARGO_PROFILE_DEV_{option}"), "false");
    }
    repo::output_of(&mut cargo)?;
    fs::remove_dir_all(&build).with_context(|| build.display().to_string())?;
    println!("tools: installed cargo-c in {TOOLS}");
    Ok(())
}

/// True when cargo-c is installed.
#[must_use]
pub fn has_cargo_c(root: &Path) -> bool {
    let mut cargo = cargo_c(root);
    let status = cargo.args(["cinstall", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    status.status().is_ok_and(|status| status.success())
}

/// `cargo` with the tools of this repository in its path.
fn cargo_c(root: &Path) -> Command {
    let mut cargo = repo::cargo(root);
    cargo.env("PATH", path(root));
    cargo
}

/// The path of programs, with the tools of this repository.
pub(crate) fn path(root: &Path) -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":");
    path.push(root.join(TOOLS).join("bin"));
    path
}

/// Copies a file, and makes its folder. A file that was there is replaced by the new one at once:
/// programs that have it mapped keep it.
pub(crate) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    make_folder_of(to)?;
    let folder = to.parent().context("a file in a folder")?;
    let place = tempfile::NamedTempFile::new_in(folder)?.into_temp_path();
    fs::copy(from, &place).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    place.persist(to).with_context(|| to.display().to_string())
}

/// Makes the folder of a file.
pub(crate) fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
