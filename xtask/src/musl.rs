//! `cargo xtask musl`: static programs of musl, in Rust and in C.
//!
//! The tests of threads and of the global allocator are built for musl and run here. So are the
//! examples in C, linked to `libsheaves.a`, where musl's compiler is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::consumers::has;
use crate::repo;

/// What is built for.
pub const TARGET: &str = "x86_64-unknown-linux-musl";
/// musl's C compiler, of the package musl-tools.
const COMPILER: &str = "musl-gcc";

/// Builds and runs everything.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let tests = ["test", "-p", "sheaves", "--test", "map_leaks", "--test", "global_allocator"];
    let status = repo::cargo(root).args(tests).args(["--target", TARGET]).status()?;
    ensure!(status.success(), "the tests failed");
    if !has(COMPILER) {
        println!("musl: skipped: programs in C: {COMPILER} is missing: install musl-tools");
        return Ok(());
    }
    let library = ["build", "--release", "-p", "sheaves-capi", "--target", TARGET];
    let status = repo::cargo(root).args(library).status()?;
    ensure!(status.success(), "the library was not built");
    let release = repo::metadata(root, &["--no-deps", "--offline"])?
        .target_directory
        .join(TARGET)
        .join("release");
    let sysroot = repo::sysroot(root)?;
    // The C compiler's own unwinder is that of glibc.
    let unwinder = sysroot.join("lib/rustlib").join(TARGET).join("lib/self-contained/libunwind.a");
    let capi = root.join("crates/sheaves-capi");
    for entry in fs::read_dir(capi.join("examples"))? {
        let source = entry?.path();
        if source.extension().is_none_or(|end| end != "c") {
            continue;
        }
        let name = source.file_stem().context("a file has a name")?;
        let program = release.join(format!("example-{}", name.display()));
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-static", "-O2", "-pthread", "-I"]).arg(capi.join("include")).arg(&source);
        compiler.arg(release.join("libsheaves.a")).arg(&unwinder).arg("-o").arg(&program);
        repo::output_of(&mut compiler)?;
        repo::output_of(&mut Command::new(&program))?;
        println!("musl: {}: passed", name.display());
    }
    Ok(())
}
