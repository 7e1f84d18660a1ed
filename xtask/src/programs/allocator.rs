//! The allocators under which programs run: each is an object for `LD_PRELOAD`.
//!
//! jemalloc and tcmalloc are Debian's. mimalloc 3, snmalloc and rpmalloc are compiled from the
//! sources in the crates that the benchmarks use, from the files that replace malloc and new.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::repo::{self, Metadata};

/// The names that `--allocators` accepts, in the order of the columns.
pub(super) const NAMES: [&str; 7] =
    ["glibc", "sheaves", "jemalloc", "mimalloc", "tcmalloc", "snmalloc", "rpmalloc"];
/// The one that the others are compared with.
pub(super) const BASE: &str = "glibc";
/// The run of [`BASE`] a second time in each round, which shows the noise.
pub(crate) const AGAIN: &str = "glibc again";

/// The one that is compared with all others.
pub(crate) const OURS: &str = "sheaves";

/// True for what Sheaves and glibc are compared with.
pub(crate) fn is_peer(name: &str) -> bool {
    ![BASE, AGAIN, OURS].contains(&name)
}

/// An allocator, as the environment of a program.
#[derive(Debug, Clone)]
pub(super) struct Allocator {
    /// Its name in reports.
    pub(super) name: &'static str,
    /// What to preload. For glibc this is libc itself, so that programs which are linked to another
    /// allocator use libc's, too.
    pub(super) preload: PathBuf,
}

/// Finds or builds the allocators of that name.
pub(super) fn all(
    root: &Path,
    folder: &Path,
    names: &[&'static str],
) -> anyhow::Result<Vec<Allocator>> {
    // Of all dependencies, which cargo downloads if they are missing.
    let metadata = repo::metadata(root, &["--all-features"])?;
    let mut allocators = Vec::new();
    for name in names {
        let preload =
            object(root, folder, &metadata, name).with_context(|| format!("allocator {name}"))?;
        allocators.push(Allocator { name, preload: preload.clone() });
        if *name == BASE {
            allocators.push(Allocator { name: AGAIN, preload });
        }
    }
    Ok(allocators)
}

fn object(root: &Path, folder: &Path, metadata: &Metadata, name: &str) -> anyhow::Result<PathBuf> {
    match name {
        "glibc" => installed("libc.so.6"),
        "jemalloc" => installed("libjemalloc.so.2"),
        "tcmalloc" => installed("libtcmalloc_minimal.so.4"),
        "sheaves" => sheaves(root, metadata),
        "mimalloc" => compile(folder, metadata, &MIMALLOC, &[]),
        "snmalloc" => compile(folder, metadata, &SNMALLOC, &[]),
        "rpmalloc" => compile(folder, metadata, &RPMALLOC, &[]),
        _ => bail!("there is no allocator `{name}`; there are {}", NAMES.join(", ")),
    }
}

/// Where the loader finds a library.
fn installed(name: &str) -> anyhow::Result<PathBuf> {
    let listed = repo::output_of(Command::new("ldconfig").arg("-p"))?;
    let line = listed.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
    let path = line.and_then(|line| line.rsplit("=> ").next());
    Ok(PathBuf::from(path.with_context(|| format!("{name} is not installed"))?))
}

fn sheaves(root: &Path, metadata: &Metadata) -> anyhow::Result<PathBuf> {
    let mut build = repo::cargo(root);
    build.args(["build", "--quiet", "--release", "-p", "sheaves-preload"]);
    repo::output_of(&mut build)?;
    Ok(metadata.target_directory.join("release/libsheaves_preload.so"))
}

/// Hardened allocators that errors of memory are planted in, by name.
pub(crate) fn hardened(root: &Path, folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let metadata = repo::metadata(root, &["--all-features"])?;
    let mut hardened = Vec::new();
    for (name, source, flag) in [
        ("mimalloc, secure", &MIMALLOC, "-DMI_SECURE=4"),
        ("snmalloc, checks", &SNMALLOC, "-DSNMALLOC_CHECK_CLIENT"),
    ] {
        hardened.push((name.to_owned(), compile(folder, &metadata, source, &[flag])?));
    }
    // Debian's libclang-rt-14-dev has it.
    let scudo = PathBuf::from(SCUDO);
    if scudo.exists() {
        hardened.push(("Scudo".to_owned(), scudo));
    }
    Ok(hardened)
}

const SCUDO: &str =
    "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so";

/// How an allocator in a crate is compiled.
struct Source {
    package: &'static str,
    compiler: &'static str,
    /// Folder of headers, in the crate.
    include: &'static str,
    /// What is compiled; it includes the rest.
    files: &'static [&'static str],
    flags: &'static [&'static str],
}

const MIMALLOC: Source = Source {
    package: "libmimalloc-sys",
    compiler: "cc",
    include: "c_src/mimalloc/v3/include",
    files: &["c_src/mimalloc/v3/src/static.c"],
    flags: &["-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT"],
};

const SNMALLOC: Source = Source {
    package: "snmalloc-sys",
    compiler: "c++",
    include: "upstream/src",
    files: &["upstream/src/snmalloc/override/malloc.cc", "upstream/src/snmalloc/override/new.cc"],
    // What its build script defines for Linux.
    flags: &[
        "-std=c++20",
        "-mcx16",
        "-DSNMALLOC_HAS_LINUX_FUTEX_H",
        "-DSNMALLOC_HAS_LINUX_RANDOM_H",
        "-DSNMALLOC_PLATFORM_HAS_GETENTROPY",
        "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1",
        "-DSNMALLOC_CHECK_LOADS=false",
        "-DSNMALLOC_PAGEID=false",
    ],
};

const RPMALLOC: Source = Source {
    package: "rpmalloc-sys",
    compiler: "cc",
    include: "rpmalloc/rpmalloc",
    files: &["rpmalloc/rpmalloc/rpmalloc.c"],
    flags: &["-std=c11", "-D_GNU_SOURCE", "-DENABLE_PRELOAD=1", "-DENABLE_OVERRIDE=1"],
};

fn compile(
    folder: &Path,
    metadata: &Metadata,
    source: &Source,
    more: &[&str],
) -> anyhow::Result<PathBuf> {
    let object = folder.join(format!("{}.so", source.package));
    let package = metadata.packages.iter().find(|package| package.name == source.package);
    let package = package.with_context(|| format!("{} is no dependency", source.package))?;
    let home = package.manifest_path.parent().context("a manifest has a folder")?;
    let mut compiler = Command::new(source.compiler);
    compiler.args(["-shared", "-fPIC", "-O3", "-DNDEBUG", "-w", "-ftls-model=initial-exec"]);
    compiler.args(source.flags).args(more).arg("-I").arg(home.join(source.include));
    compiler.args(source.files.iter().map(|file| home.join(file)));
    compiler.arg("-o").arg(&object).args(["-lpthread", "-ldl"]);
    repo::output_of(&mut compiler)?;
    check_is_allocator(&object)?;
    Ok(object)
}

/// An object without `malloc` would measure glibc.
fn check_is_allocator(object: &Path) -> anyhow::Result<()> {
    let symbols = repo::output_of(Command::new("nm").args(["-D", "--defined-only"]).arg(object))?;
    let has = |name: &str| symbols.lines().any(|line| line.ends_with(&format!(" {name}")));
    for name in ["malloc", "free", "calloc", "realloc", "_Znwm"] {
        ensure!(has(name), "{} has no `{name}`", object.display());
    }
    Ok(())
}
