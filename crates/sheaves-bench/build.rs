//! Tells the program which commit it was built from, so that every figure it prints can be traced,
//! and with the feature `peers` compiles the reader loops of liburcu, each flavour in a unit of its
//! own, and tells where the headers of mimalloc are.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The log of HEAD grows with every commit and checkout; HEAD itself only names the branch.
    if let Some(log) = git(&["--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo:rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["--short=12", "HEAD"]) {
        println!("cargo:rustc-env=SHEAVES_COMMIT={commit}");
    }
    #[cfg(feature = "peers")]
    compile_liburcu();
    // By `libmimalloc-sys`, in the features of peers.
    if let Ok(include) = std::env::var("DEP_MIMALLOC_INCLUDE_DIR") {
        println!("cargo:rustc-env=SHEAVES_MIMALLOC={include}");
    }
}

/// What `git rev-parse` prints, where there is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("rev-parse").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    Some(text.trim().to_owned())
}

/// As a program of liburcu's users is compiled: with `-O2`, as a position-independent executable.
#[cfg(feature = "peers")]
fn compile_liburcu() {
    const SOURCE: &str = "src/contenders/liburcu/flavour.c";
    println!("cargo:rerun-if-changed={SOURCE}");
    for flavour in ["memb", "mb", "bp", "qsbr"] {
        let mut build = cc::Build::new();
        build.file(SOURCE).opt_level(2).debug(false).pic(false).flag("-fPIE").warnings(true);
        build.define("FLAVOUR", flavour);
        build.define("URCU_HEADER", format!("<urcu/urcu-{flavour}.h>").as_str());
        if flavour == "qsbr" {
            build.define("IS_QSBR", None);
        }
        if let Err(error) = build.try_compile(&format!("sheaves_bench_liburcu_{flavour}")) {
            println!("cargo:warning=the feature `peers` needs liburcu (Debian: liburcu-dev)");
            panic!("{SOURCE} was not compiled for {flavour}: {error}");
        }
        println!("cargo:rustc-link-lib=dylib=urcu-{flavour}");
    }
    compile_loops_of_dispose();
}

/// The loops of the table `dispose`, in liburcu's usual flavour.
#[cfg(feature = "peers")]
fn compile_loops_of_dispose() {
    const SOURCE: &str = "src/tables/dispose/liburcu.c";
    println!("cargo:rerun-if-changed={SOURCE}");
    let mut build = cc::Build::new();
    build.file(SOURCE).opt_level(2).debug(false).pic(false).flag("-fPIE").warnings(true);
    if let Err(error) = build.try_compile("sheaves_bench_dispose") {
        panic!("{SOURCE} was not compiled: {error}");
    }
    // Behind the loops, which use it.
    println!("cargo:rustc-link-lib=dylib=urcu-memb");
}
