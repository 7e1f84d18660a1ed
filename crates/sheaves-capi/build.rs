//! Linker flags of the shared object.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=exports.map");
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("exports.map");
    let arguments = [
        "-Wl,-soname,libsheaves.so.0",
        // Threads hold addresses of this object's memory for ever: it must never be unloaded.
        "-Wl,-z,nodelete",
        // Calls of our own functions must not go through the dynamic linker's tables.
        "-Wl,-Bsymbolic-functions",
        // The thread's words, which are declared in assembly and so unknown to the compiler.
        &format!("-Wl,--version-script={}", map.display()),
    ];
    for argument in arguments {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
}
