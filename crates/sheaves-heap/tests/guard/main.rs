//! Guard samples: what they find, what they report, and what they cost in mappings.
//!
//! Each case runs in a process of its own: [`run`] starts this program again for one case.

mod kinds;
mod pool;
mod rates;
mod readers;
mod signals;

use std::process::{Command, Output};

use sheaves_heap::{free, guard, malloc, profile};

/// The variable that names the case of a process.
const CASE: &str = "SHEAVES_CASE";

/// Runs a case in a process of its own.
fn run(case: &str, variables: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", case, "--nocapture"])
        .env(CASE, case)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// Defines cases: name, environment, what to do with the output, and what the process does.
macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident $variables:expr, $check:expr => $body:expr;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            let case = concat!(module_path!(), "::", stringify!($name));
            let case = case.split_once("::").map_or(case, |(_, case)| case);
            if std::env::var($crate::CASE).is_ok_and(|name| name == case) {
                $body;
            } else {
                let output = $crate::run(case, &$variables);
                let check: fn(&std::process::Output) = $check;
                check(&output);
            }
        }
    )*};
}
use cases;

/// Standard error of a case that has passed.
#[track_caller]
fn passed(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:#?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Makes nearly each allocation of 8 KiB and more a guarded one.
fn guard_all() {
    assert!(profile::start(profile::RATE_BYTES_MIN));
    assert!(guard::on(1));
}

/// A guarded block.
fn guarded(bytes: usize) -> *mut u8 {
    guarded_by(|| malloc(bytes))
}

/// A guarded block from a function.
fn guarded_by(mut alloc: impl FnMut() -> *mut u8) -> *mut u8 {
    let mut others = Vec::new();
    let found = (0..1_000_000).find_map(|_| {
        let block = alloc();
        assert!(!block.is_null());
        if sheaves_slab::internal::trap::contains(block.addr()) {
            return Some(block);
        }
        others.push(block);
        None
    });
    for block in others {
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
    }
    found.expect("a guarded block among a million")
}

/// A guarded block at the end of its pages, or at their beginning.
fn guarded_at(bytes: usize, is_at_end: bool) -> *mut u8 {
    let page = 4096;
    (0..10_000)
        .map(|_| guarded(bytes))
        .find(|block| {
            let is_found = block.addr().is_multiple_of(page) != is_at_end;
            if !is_found {
                // SAFETY: from this heap, and not used after.
                unsafe { free(*block) };
            }
            is_found
        })
        .expect("it is at either end by chance")
}

/// Reads a byte.
fn read(place: *const u8) -> u8 {
    // SAFETY: the kernel decides whether it is readable.
    unsafe { place.read_volatile() }
}

/// Writes a byte.
fn write(place: *mut u8) {
    // SAFETY: the kernel decides whether it is writable.
    unsafe { place.write_volatile(1) };
}
