//! Assembly, system calls, `std`.

use xtask::finding::Kind;

use crate::{LIBRARY, TOOL, assert_clean, assert_finds, file};

const ENGINE: &str = "crates/sheaves-percpu/src/engine/rseq/x86_64.rs";
const TLS: &str = "crates/sheaves-sys/src/tls/x86_64.rs";
const PROBE: &str = "crates/sheaves-sys/src/reports/probe.rs";
const DLOPEN: &str = "crates/sheaves-preload/src/dl.rs";
const PRCTL: &str = "crates/sheaves-preload/src/sandbox.rs";
const SYS: &str = "crates/sheaves-sys/src/map.rs";

#[test]
fn asm_outside_engine() {
    for name in ["asm", "global_asm", "naked_asm"] {
        let text = format!("fn f() {{\n    core::arch::{name}!(\"nop\");\n}}\n");
        assert_finds(LIBRARY, &text, &[(2, Kind::AsmOutsideEngine { name: name.into() })]);
        assert_finds(SYS, &text, &[(2, Kind::AsmOutsideEngine { name: name.into() })]);
        assert_clean(ENGINE, &text);
        assert_clean(TLS, &text);
        assert_clean(PROBE, &text);
        assert_clean(DLOPEN, &text);
        assert_clean(PRCTL, &text);
        assert_clean(TOOL, &text);
    }
    assert_clean(LIBRARY, "// asm!(\"nop\")\nconst A: &str = \"asm!()\";\nfn asm() {}\n");
}

fn call(name: &str) -> Kind {
    Kind::SystemCallOutsideSys { name: name.into() }
}

#[test]
fn system_call_by_path() {
    let names = ["syscall", "mmap", "munmap", "mremap", "madvise", "mprotect", "write", "open"];
    for name in names {
        let text = format!("fn f() {{ unsafe {{ libc::{name}(1) }}; }}\n");
        assert_finds(LIBRARY, &text, &[(1, call(name))]);
        assert_clean(SYS, &text);
        assert_clean(TOOL, &text);
        assert_clean("crates/sheaves-slab/tests/caches/storm.rs", &text);
    }
    let text = "const N: libc::c_long = libc::SYS_futex;\n";
    assert_finds(LIBRARY, text, &[(1, call("SYS_futex"))]);
    assert_clean(LIBRARY, "fn f(n: libc::c_int) { unsafe { libc::memcpy(a, b, libc::EINVAL) } }\n");
    assert_clean(
        LIBRARY,
        "// libc::mmap(1)\n/// libc::mmap(1)\nconst A: &str = \"libc::mmap(1)\";\n",
    );
}

#[test]
fn system_call_by_import() {
    assert_finds(LIBRARY, "use libc::{c_int, mmap};\nfn f() { mmap(1) }\n", &[(2, call("mmap"))]);
    assert_finds(LIBRARY, "use libc as c;\nfn f() { c::mmap(1) }\n", &[(2, call("mmap"))]);
    assert_finds(LIBRARY, "use libc::*;\n", &[(1, Kind::LibcGlob)]);
    assert_clean(LIBRARY, "use libc::c_int;\nfn mmap() {}\nfn f(m: M) { mmap(); m.mmap() }\n");
}

#[test]
fn foreign_function() {
    let text = "unsafe extern \"C\" {\n    static A: u8;\n    fn futex(a: u8);\n}\n";
    let finding = Kind::ForeignFunctionOutsideSys { name: "futex".into() };
    assert_finds(LIBRARY, text, &[(3, finding.clone())]);
    assert_finds(LIBRARY, &format!("mod raw {{\n{text}}}\n"), &[(4, finding)]);
    assert_clean(SYS, text);
}

#[test]
fn std_in_library() {
    assert_finds(LIBRARY, "use std::env;\n", &[(1, Kind::UsesStd)]);
    assert_finds(LIBRARY, "fn f() { ::std::env::var(\"A\") }\n", &[(1, Kind::UsesStd)]);
    assert_finds(LIBRARY, "extern crate std;\n", &[(1, Kind::UsesStd)]);
    assert_clean("crates/sheaves-preload/src/panic.rs", "extern crate std;\n");
    assert_clean("crates/sheaves-capi/src/panic.rs", "extern crate std;\n");
    assert_clean(TOOL, "use std::env;\n");
    assert_clean(LIBRARY, "/// ```\n/// use std::env;\n/// ```\nfn f() { other::std::f() }\n");
}

#[test]
fn environment() {
    let text = "unsafe extern \"C\" {\n    static environ: *const u8;\n}\n";
    assert_finds(SYS, text, &[(2, Kind::ReadsEnvironment)]);
    let text = "fn f() {\n    unsafe { libc::getenv(NAME) };\n}\n";
    assert_finds(SYS, text, &[(2, Kind::ReadsEnvironment)]);
    assert_clean("crates/sheaves-sys/src/options/environment.rs", text);
    assert_clean(TOOL, text);
}

#[test]
fn test_code_is_free() {
    assert_clean(LIBRARY, "#[cfg(test)]\nmod checks {\n    use std::env;\n}\n");
    assert_clean(LIBRARY, "#[cfg(all(test, target_os = \"linux\"))]\nuse std::env;\n");
    let protocol = "crates/sheaves-slab/src/protocol/stack.rs";
    assert_clean(protocol, "#[cfg(loom)]\nmod model {\n    use std::env;\n}\n");
    assert_clean(LIBRARY, "impl A {\n    #[cfg(test)]\n    fn f() { std::env::var(\"A\"); }\n}\n");
    let text = "#[cfg(not(test))]\nuse std::env;\n";
    assert_finds(LIBRARY, text, &[(2, Kind::UsesStd)]);
    let text = "#[cfg(any(test, feature = \"a\"))]\nuse std::env;\n";
    assert_finds(LIBRARY, text, &[(2, Kind::UsesStd)]);
}

#[test]
fn test_module_in_its_own_file() {
    let tests = file("crates/sheaves-slab/src/depot/tests.rs", "use std::env;\n");
    let parent = |attribute| file(LIBRARY, &format!("{attribute}\nmod tests;\n"));
    let findings = xtask::tidy::check_files(&[parent("#[cfg(test)]"), tests.clone()]);
    assert!(findings.is_empty(), "{findings:?}");
    let findings = xtask::tidy::check_files(&[parent("#[cfg(unix)]"), tests]);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, Kind::UsesStd);
}

#[test]
fn not_no_std() {
    let root = "crates/sheaves-slab/src/lib.rs";
    assert_finds(root, "//! Slab.\n", &[(1, Kind::NotNoStd)]);
    assert_finds(root, "#![cfg_attr(test, no_std)]\n", &[(1, Kind::NotNoStd)]);
    assert_clean(root, "//! Slab.\n#![no_std]\n");
    assert_clean(root, "#![cfg_attr(not(any(test, loom)), no_std)]\n");
    assert_clean("crates/sheaves-bench/src/lib.rs", "//! Bench.\n");
}
