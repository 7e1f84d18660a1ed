//! Linker flags of the preload object.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Fast paths refer to descriptors in this object for ever: it must never be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Calls of our own to malloc and free must not go through the dynamic linker's tables.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
