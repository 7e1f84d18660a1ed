//! `cargo xtask consumers`: projects of users that find the installed library.
//!
//! The library is installed to a prefix of its own, as `cargo xtask install` does. A project that
//! uses pkg-config, one that uses CMake and one that uses Meson are built against it and run. That
//! for CMake is also built on the package of the recipe for Conan. They are in
//! `crates/sheaves-capi/tests/consumer/`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::install::{self, Place};
use crate::repo;

/// The projects.
pub(crate) const PROJECT: &str = "crates/sheaves-capi/tests/consumer";
/// The exported symbols of the shared object.
const SYMBOLS: &str = "crates/sheaves-capi/tests/c_api/symbols.txt";
/// Number of programs in each project; each prints `ok`.
const PROGRAMS: usize = 4;
/// Folder of the builds and of the prefix.
const TARGET: &str = "target/consumers";

/// Where the projects find what.
struct Places<'run> {
    root: &'run Path,
    project: PathBuf,
    /// Of builds.
    target: PathBuf,
    /// Of the installed library.
    prefix: PathBuf,
}

/// Name, tools, and how it is built and run.
type Project = (&'static str, &'static [&'static str], fn(&Places<'_>) -> anyhow::Result<()>);
const PROJECTS: [Project; 4] = [
    ("pkg-config", &["pkg-config", "make"], by_pkg_config),
    ("CMake", &["cmake"], by_cmake),
    ("Meson", &["meson", "pkg-config"], by_meson),
    ("Conan", &["conan", "cmake"], by_conan),
];

/// Installs the library, then builds and runs the projects. A project whose tools are missing is
/// skipped with a line.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let target = root.join(TARGET);
    if target.exists() {
        std::fs::remove_dir_all(&target).context(TARGET)?;
    }
    let prefix = target.join("prefix");
    let libdir = "lib".into();
    let place =
        Place { prefix: prefix.clone(), libdir, destdir: None, other: None, is_trial: false };
    install::library(root, &place)?;
    check_object(root, &prefix)?;
    let places = Places { root, project: root.join(PROJECT), target, prefix };
    for (name, tools, run) in PROJECTS {
        if let Some(missing) = tools.iter().find(|tool| !has(tool)) {
            println!("consumers: skipped {name}: {missing} is not installed");
            continue;
        }
        run(&places).context(name)?;
        println!("consumers: {PROGRAMS} programs found the library by {name}");
    }
    Ok(())
}

fn by_pkg_config(places: &Places<'_>) -> anyhow::Result<()> {
    let build = places.target.join("pkg-config");
    std::fs::create_dir_all(&build)?;
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(&places.project).arg(format!("BUILD={}", build.display()));
    let printed = repo::output_of(at(&mut make, &places.prefix))?;
    ensure!(printed == "ok\n".repeat(PROGRAMS), "{printed}");
    Ok(())
}

fn by_cmake(places: &Places<'_>) -> anyhow::Result<()> {
    let build = places.target.join("cmake");
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(&places.project).arg("-B").arg(&build);
    repo::output_of(cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", places.prefix.display())))?;
    repo::output_of(Command::new("cmake").arg("--build").arg(&build))?;
    let mut ctest = Command::new("ctest");
    let printed = repo::output_of(at(ctest.arg("--test-dir").arg(&build), &places.prefix))?;
    let wanted = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
    ensure!(printed.contains(&wanted), "{printed}");
    Ok(())
}

fn by_meson(places: &Places<'_>) -> anyhow::Result<()> {
    let build = places.target.join("meson");
    let mut setup = Command::new("meson");
    setup.arg("setup").arg(&build).arg(&places.project);
    repo::output_of(at(&mut setup, &places.prefix))?;
    let mut test = Command::new("meson");
    let printed = repo::output_of(at(test.arg("test").arg("-C").arg(&build), &places.prefix))?;
    let passed = printed.lines().find_map(|line| line.strip_prefix("Ok:"));
    ensure!(passed.map(str::trim) == Some(&PROGRAMS.to_string()), "{printed}");
    Ok(())
}

/// The recipe builds the library again, from a copy of the sources, and tests the package by the
/// project for CMake. Packages of the user are not touched, and nothing is downloaded.
fn by_conan(places: &Places<'_>) -> anyhow::Result<()> {
    let conan = |arguments: &[&str]| {
        let mut conan = Command::new("conan");
        conan.current_dir(places.root).args(arguments).env("PATH", install::path(places.root));
        repo::output_of(conan.env("CONAN_HOME", places.target.join("conan")))
    };
    let build = places.target.join("conan-test");
    let build = format!("tools.cmake.cmake_layout:test_folder={}", build.display());
    let no_presets = "tools.cmake.cmaketoolchain:user_presets=";
    conan(&["profile", "detect"])?;
    conan(&["create", ".", "-nr", "-tf", PROJECT, "-c", &build, "-c", no_presets])?;
    Ok(())
}

/// Checks the soname, which programs are linked to, its link, and the exports, which must be the
/// same as without cargo-c.
fn check_object(root: &Path, prefix: &Path) -> anyhow::Result<()> {
    let object = prefix.join("lib/libsheaves.so");
    let listing = repo::output_of(Command::new("nm").args(["-D", "--defined-only"]).arg(&object))?;
    let mut exported: Vec<_> = listing.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    let wanted = std::fs::read_to_string(root.join(SYMBOLS)).context(SYMBOLS)?;
    ensure!(exported.iter().copied().eq(wanted.lines()), "the exports differ from {SYMBOLS}");
    let dynamic = repo::output_of(Command::new("readelf").arg("-d").arg(&object))?;
    ensure!(dynamic.contains("[libsheaves.so.0]"), "the shared object's name: {dynamic}");
    let link = std::fs::read_link(prefix.join("lib/libsheaves.so.0")).context("libsheaves.so.0")?;
    ensure!(prefix.join("lib").join(&link).is_file(), "{} does not exist", link.display());
    Ok(())
}

/// Sets the variables by which builds and programs find the library.
fn at<'command>(command: &'command mut Command, prefix: &Path) -> &'command mut Command {
    let prefix = prefix.display();
    let found = format!("{prefix}/lib/pkgconfig:{prefix}/share/pkgconfig");
    command.env("PKG_CONFIG_PATH", found).env("LD_LIBRARY_PATH", format!("{prefix}/lib"))
}

/// True when a program is installed.
pub(crate) fn has(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}
