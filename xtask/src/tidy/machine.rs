//! Rules about code that is bound to the machine: where assembly, system calls and `std` are
//! allowed.
//!
//! They apply to the source of library crates. Tests, benchmarks and the command line may use the
//! system freely; they never run under malloc.

use std::collections::BTreeSet;

use syn::visit::Visit;

use super::rust::{RustFile, TokenKind};
use super::{cfg, place};
use crate::finding::{Finding, Kind};

/// Macros that contain instructions.
const ASM_MACROS: [&str; 3] = ["asm", "global_asm", "naked_asm"];
/// Where they are allowed: the engines, thread-local storage, probes, and the functions that have
/// to jump, so that their caller's return address or arguments stay.
const ASM_PLACES: [&str; 5] = [
    "crates/sheaves-percpu/src/engine/",
    "crates/sheaves-sys/src/tls/",
    "crates/sheaves-sys/src/reports/probe.rs",
    "crates/sheaves-preload/src/dl.rs",
    "crates/sheaves-preload/src/sandbox.rs",
];
/// Where the environment may be read, when the object is loaded.
const ENVIRONMENT_FOLDER: &str = "crates/sheaves-sys/src/options/";
const ENVIRONMENT_NAMES: [&str; 4] = ["environ", "__environ", "getenv", "secure_getenv"];
/// Where system calls are allowed.
const SYSTEM_CALL_FOLDER: &str = "crates/sheaves-sys/src/";
/// The crates that are linked last, and so need a panic runtime, which is in `std`.
const OBJECT_FOLDERS: [&str; 2] = ["crates/sheaves-preload/", "crates/sheaves-capi/"];

/// Where `std` is linked, under Miri only.
const STD_FILE: &str = "crates/sheaves-sys/src/tls/miri.rs";

/// Functions of libc that stay in user space and take no lock. Every other function counts as a
/// system call: a list of harmful ones would become incomplete when libc grows.
const HARMLESS_FUNCTIONS: [&str; 12] = [
    "__errno_location",
    "memchr",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "strcmp",
    "strlen",
    "strncmp",
    "strnlen",
    "pthread_self",
    "CPU_ISSET",
];

pub(crate) fn check(source: &RustFile, findings: &mut Vec<Finding>) {
    check_asm(source, findings);
    check_std(source, findings);
    check_environment(source, findings);
    if !source.path.starts_with(SYSTEM_CALL_FOLDER) {
        check_system_calls(source, findings);
        check_foreign_functions(source, findings);
    }
}

/// Library crates must not link `std`.
pub(crate) fn check_no_std(sources: &[RustFile], findings: &mut Vec<Finding>) {
    for source in sources {
        let is_crate_root =
            source.path.matches('/').count() == 3 && source.path.ends_with("/lib.rs");
        if is_crate_root
            && place::is_library_code(&source.path)
            && !cfg::is_no_std(&source.syntax.attrs)
        {
            findings.push(Finding::new(&source.path, 1, Kind::NotNoStd));
        }
    }
}

fn check_asm(source: &RustFile, findings: &mut Vec<Finding>) {
    if ASM_PLACES.iter().any(|place| source.path.starts_with(place)) {
        return;
    }
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind == TokenKind::Word
            && ASM_MACROS.contains(&token.text.as_str())
            && source.text_at(Some(index + 1)) == "!"
            && !source.is_test_line(token.line)
        {
            let name = token.text.clone();
            findings.push(Finding::new(&source.path, token.line, Kind::AsmOutsideEngine { name }));
        }
    }
}

fn check_std(source: &RustFile, findings: &mut Vec<Finding>) {
    if source.path == STD_FILE {
        return;
    }
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word || token.text != "std" || source.is_test_line(token.line) {
            continue;
        }
        let before = source.text_at(index.checked_sub(1));
        let is_extern_crate = before == "crate" && source.text_at(index.checked_sub(2)) == "extern";
        let is_path = source.text_at(Some(index + 1)) == "::"
            && (before != "::" || !is_word(source, index.checked_sub(2)));
        let is_allowed =
            is_extern_crate && OBJECT_FOLDERS.iter().any(|folder| source.path.starts_with(folder));
        if (is_path || is_extern_crate) && !is_allowed {
            findings.push(Finding::new(&source.path, token.line, Kind::UsesStd));
        }
    }
}

fn check_environment(source: &RustFile, findings: &mut Vec<Finding>) {
    if source.path.starts_with(ENVIRONMENT_FOLDER) {
        return;
    }
    for token in source.tokens.iter().filter(|token| token.kind == TokenKind::Word) {
        if ENVIRONMENT_NAMES.contains(&token.text.as_str()) && !source.is_test_line(token.line) {
            findings.push(Finding::new(&source.path, token.line, Kind::ReadsEnvironment));
        }
    }
}

fn is_word(source: &RustFile, index: Option<usize>) -> bool {
    index
        .and_then(|index| source.tokens.get(index))
        .is_some_and(|token| token.kind == TokenKind::Word)
}

/// Finds `libc::name(...)`, `libc::SYS_...` and calls of functions imported by `use libc::...`.
fn check_system_calls(source: &RustFile, findings: &mut Vec<Finding>) {
    let mut roots = BTreeSet::from(["libc"]);
    let mut imported = BTreeSet::new();
    for import in &source.imports {
        match import.path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["libc"] | ["libc", "self"] => {
                roots.insert(import.name.as_str());
            }
            ["libc", "*"] if !source.is_test_line(import.line) => {
                findings.push(Finding::new(&source.path, import.line, Kind::LibcGlob));
            }
            ["libc", _] => {
                imported.insert(import.name.as_str());
            }
            _ => {}
        }
    }
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word || source.is_test_line(token.line) {
            continue;
        }
        let name = token.text.as_str();
        let before = source.text_at(index.checked_sub(1));
        let is_named = if before == "::" {
            roots.contains(source.text_at(index.checked_sub(2)))
        } else {
            imported.contains(name) && before != "." && before != "fn"
        };
        let is_call = source.text_at(Some(index + 1)) == "(" && !HARMLESS_FUNCTIONS.contains(&name);
        if is_named && (is_call || name.starts_with("SYS_")) && !source.is_in_use_item(index) {
            let name = name.to_owned();
            let kind = Kind::SystemCallOutsideSys { name };
            findings.push(Finding::new(&source.path, token.line, kind));
        }
    }
}

/// A foreign function is a system call by another name; foreign statics are data and allowed.
fn check_foreign_functions(source: &RustFile, findings: &mut Vec<Finding>) {
    struct Search<'a> {
        source: &'a RustFile,
        findings: &'a mut Vec<Finding>,
    }
    impl<'ast> Visit<'ast> for Search<'_> {
        fn visit_foreign_item_fn(&mut self, function: &'ast syn::ForeignItemFn) {
            let line = function.sig.ident.span().start().line;
            if !self.source.is_test_line(line) {
                let name = function.sig.ident.to_string();
                let kind = Kind::ForeignFunctionOutsideSys { name };
                self.findings.push(Finding::new(&self.source.path, line, kind));
            }
        }
    }
    Search { source, findings }.visit_file(&source.syntax);
}
