//! The repository as the tools see it: its root, its text files, its crates.
//!
//! The rules are in [`crate::tidy`].

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

/// A text file of the repository.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Path relative to the root, with `/` between its parts.
    pub path: String,
    /// The text.
    pub text: String,
}

/// A crate of the workspace, as `cargo metadata` reports it.
#[derive(Debug, Clone, Deserialize)]
pub struct Package {
    /// Name of the crate.
    pub name: String,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// Its dependencies of every kind.
    pub dependencies: Vec<Dependency>,
    /// The registries that it may be published to: an empty list for none, nothing for every one.
    pub publish: Option<Vec<String>>,
}

impl Package {
    /// True unless its manifest has `publish = false`.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }
}

/// One dependency of a crate, as `cargo metadata` reports it.
#[derive(Debug, Clone, Deserialize)]
pub struct Dependency {
    /// Name of the dependency.
    pub name: String,
    /// Nothing for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
    /// The `cfg(...)` or triple that it is restricted to.
    pub target: Option<String>,
    /// It comes with a feature only.
    #[serde(default)]
    pub optional: bool,
}

/// What `cargo metadata` reports.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// The crates.
    pub packages: Vec<Package>,
    /// Where cargo builds.
    pub target_directory: PathBuf,
}

/// The root of the repository: the parent of the folder this crate was built in.
#[must_use]
pub fn root() -> &'static Path {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir)
}

/// A `cargo` command at the root, of the toolchain that runs us.
#[must_use]
pub fn cargo(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root);
    command
}

/// Runs `command` to its end and returns its standard output; a failure carries its error text.
pub fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout).with_context(|| format!("{name} printed no UTF-8"))
}

/// The compiler's folder.
pub fn sysroot(root: &Path) -> anyhow::Result<PathBuf> {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut sysroot = Command::new(compiler);
    let folder = output_of(sysroot.current_dir(root).args(["--print", "sysroot"]))?;
    Ok(folder.trim().into())
}

/// True when the compiler can build for a target.
pub fn has_target(root: &Path, target: &str) -> anyhow::Result<bool> {
    Ok(sysroot(root)?.join("lib/rustlib").join(target).exists())
}

/// Fails with one line when the compiler cannot build for a target.
pub fn require_target(root: &Path, target: &str) -> anyhow::Result<()> {
    let is_there = has_target(root, target)?;
    ensure!(is_there, "the target is missing: run `rustup target add {target}`");
    Ok(())
}

/// The crates of the workspace. Reads no dependencies, so it works without a network.
pub fn packages(root: &Path) -> anyhow::Result<Vec<Package>> {
    Ok(metadata(root, &["--no-deps", "--offline"])?.packages)
}

/// Where cargo puts what it builds in release mode for a target; for this machine without a name.
pub fn release_folder(root: &Path, target: &str) -> anyhow::Result<PathBuf> {
    let folder = metadata(root, &["--no-deps", "--offline"])?.target_directory;
    Ok(folder.join(target).join("release"))
}

/// The C API's crate.
pub const CAPI: &str = "crates/sheaves-capi";
/// The header of the API.
pub const HEADER: &str = "crates/sheaves-capi/include/sheaves.h";

/// The examples in C of the C API: their names, and the source files.
pub fn c_examples(root: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(CAPI).join("examples"))? {
        let source = entry?.path();
        if source.extension().is_some_and(|end| end == "c") {
            let name = source.file_stem().context("a file has a name")?;
            found.push((name.to_string_lossy().into_owned(), source));
        }
    }
    Ok(found)
}

/// Runs `cargo metadata`.
pub fn metadata(root: &Path, options: &[&str]) -> anyhow::Result<Metadata> {
    let json = output_of(cargo(root).args(["metadata", "--format-version=1"]).args(options))?;
    serde_json::from_str(&json).context("cargo metadata")
}

/// Every text file that git would commit, without `.git` and what `.gitignore` names.
pub fn text_files(root: &Path) -> anyhow::Result<Vec<TextFile>> {
    let walk = ignore::WalkBuilder::new(root)
        .hidden(false)
        .parents(false)
        .git_global(false)
        .require_git(false)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp)
        .build();
    let mut files = Vec::new();
    for entry in walk {
        let entry = entry?;
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = match std::fs::read(entry.path()) {
            Ok(bytes) => bytes,
            // A file may be saved or removed while we walk.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).context(entry.path().display().to_string()),
        };
        // A file that is not UTF-8 is not text, and no rule applies.
        let Ok(text) = String::from_utf8(bytes) else { continue };
        let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
        files.push(TextFile { path, text });
    }
    Ok(files)
}
