//! `cargo xtask musl`: static programs of musl, in Rust and in C.
//!
//! The tests of threads and of the global allocator are built for musl and run here. So are the
//! examples in C, linked to `libsheaves.a`, where musl's compiler is installed. Programs for
//! aarch64 need a kernel of that architecture: `cargo xtask vm --musl` has one.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;

use crate::consumers::has;
use crate::repo;

/// What is built for.
pub const TARGET: &str = "x86_64-unknown-linux-musl";
/// musl's C compiler, of the package musl-tools.
const COMPILER: &str = "musl-gcc";

/// Builds and runs everything.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let tests: [&[&str]; 2] = [
        &["-p", "sheaves", "--test", "map_leaks", "--test", "global_allocator"],
        // Threads of musl end their registrations of rseq themselves.
        &["-p", "sheaves-percpu", "--test", "transactions", "thread_end"],
    ];
    for test in tests {
        let status = repo::cargo(root).args(["test", "--target", TARGET]).args(test).status()?;
        ensure!(status.success(), "the tests failed");
    }
    if !has(COMPILER) {
        println!("musl: skipped: programs in C: {COMPILER} is missing: install musl-tools");
        return Ok(());
    }
    let library = ["build", "--release", "-p", "sheaves-capi", "--target", TARGET];
    let status = repo::cargo(root).args(library).status()?;
    ensure!(status.success(), "the library was not built");
    let release = repo::release_folder(root, TARGET)?;
    let sysroot = repo::sysroot(root)?;
    // The C compiler's own unwinder is that of glibc.
    let unwinder = sysroot.join("lib/rustlib").join(TARGET).join("lib/self-contained/libunwind.a");
    let include = root.join(repo::CAPI).join("include");
    for (name, source) in repo::c_examples(root)? {
        let program = release.join(format!("example-{name}"));
        let mut compiler = Command::new(COMPILER);
        compiler.args(["-static", "-O2", "-pthread", "-I"]).arg(&include).arg(&source);
        compiler.arg(release.join("libsheaves.a")).arg(&unwinder).arg("-o").arg(&program);
        repo::output_of(&mut compiler)?;
        repo::output_of(&mut Command::new(&program))?;
        println!("musl: {name}: passed");
    }
    Ok(())
}
