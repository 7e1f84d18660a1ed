//! Linker flags of the shared object, and the files that `cargo cinstall` installs with the version
//! filled in.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The name that programs are linked to, where cargo-c does not set one: cargo-c derives the same
/// from `Cargo.toml`.
const SHARED_OBJECT: &str = "libsheaves.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exports.map");
    println!("cargo::rerun-if-changed=install");
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("exports.map");
    let mut arguments = vec![
        // Threads keep addresses of this object's memory until they end: it must never be unloaded.
        "-Wl,-z,nodelete".to_owned(),
        // Calls of our own functions must not go through the procedure linkage table.
        "-Wl,-Bsymbolic-functions".to_owned(),
        // Exports the thread's words, which are declared in assembly and so unknown to the
        // compiler.
        format!("-Wl,--version-script={}", map.display()),
    ];
    // The precompiled `core` names this function in its tables for unwinding. No panic unwinds
    // here, and where panics abort nothing defines it: `src/lib.rs`.
    if env::var("CARGO_CFG_PANIC").is_ok_and(|panic| panic == "abort") {
        arguments.push("-Wl,--defsym=rust_eh_personality=0".to_owned());
    }
    // Without the standard library nothing else says that this needs libc.
    if env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        arguments.push("-Wl,--no-as-needed,-lc".to_owned());
    }
    if env::var_os("CARGO_FEATURE_CAPI").is_none() {
        arguments.push(format!("-Wl,-soname,{SHARED_OBJECT}"));
    }
    arguments.extend(linker());
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    write_installed();
}

/// Chooses lld where the compiler does not: GNU ld takes no second version script beside the
/// compiler's.
fn linker() -> Vec<String> {
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        return Vec::new();
    }
    let compiler = env::var("RUSTC").expect("cargo sets it");
    let output = Command::new(compiler).args(["--print", "sysroot"]).output().expect("a compiler");
    let sysroot = String::from_utf8(output.stdout).expect("a path");
    let host = env::var("HOST").expect("cargo sets it");
    // The compiler's own lld; another one where this folder does not exist.
    let folder = format!("-B{}/lib/rustlib/{host}/bin/gcc-ld", sysroot.trim());
    vec![folder, "-fuse-ld=lld".to_owned()]
}

/// Writes `install/NAME.in` to `OUT_DIR/install/NAME`.
fn write_installed() {
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let out = Path::new(&out).join("install");
    fs::create_dir_all(&out).expect("a folder");
    for entry in fs::read_dir("install").expect("a folder beside this file") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        let text = text
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
            .replace("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR"))
            .replace("@MINOR@", env!("CARGO_PKG_VERSION_MINOR"));
        let name = path.file_stem().expect("NAME.in");
        fs::write(out.join(name), text).expect("written");
    }
}
