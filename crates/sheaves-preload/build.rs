//! Linker flags of the preload object.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Fast paths refer to descriptors in this object for ever: it must never be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Calls of our own to malloc and free must not go through the dynamic linker's tables.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // But those to operators that a program may replace have to, see `src/cxx.rs`.
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/replaceable.list");
    println!("cargo::rerun-if-changed={list}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--dynamic-list={list}");
}
