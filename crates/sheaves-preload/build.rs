//! Linker flags of the preload object.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Descriptors of rseq critical sections are in this object, and the kernel may read them at any
    // time: it must never be unloaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // Our own calls to malloc and free must not go through the procedure linkage table.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    // Calls to operators that a program may replace must go through it: see `src/cxx.rs`.
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/replaceable.list");
    println!("cargo::rerun-if-changed={list}");
    println!("cargo::rustc-cdylib-link-arg=-Wl,--dynamic-list={list}");
    // The precompiled `core` names this function in its tables for unwinding. No panic unwinds
    // here, and where panics abort nothing defines it: `src/standalone.rs`.
    println!("cargo::rustc-cdylib-link-arg=-Wl,--defsym=rust_eh_personality=0");
    // On other architectures than x86-64 glibc has `pthread_atfork` in a static part of its own,
    // from which every object that calls it takes a copy.
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch != "x86_64") {
        println!("cargo::rustc-cdylib-link-arg=-lc");
    }
}
