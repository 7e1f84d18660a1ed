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
    // Each page that the start of a program writes to costs it a fault: segments begin with one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,separate-loadable-segments");
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        // What the compiler's start files do in a shared object is for one with destructors, or
        // that is unloaded. They took three more pages in each process.
        println!("cargo::rustc-cdylib-link-arg=-nostartfiles");
    } else {
        // Elsewhere glibc has `pthread_atfork` in a static part of its own, from which every object
        // that calls it takes a copy. It names what the start files define.
        println!("cargo::rustc-cdylib-link-arg=-lc");
    }
}
