//! Pages of 16 and 64 KiB, as arm64 and ppc64 have them.
//!
//! The library asks `getauxval` how large a page is. This program has one of its own, which answers
//! what the environment says. So everything is rounded as on such a machine; that memory of this
//! one could be protected in smaller pieces is not noticed by anybody.

use crate::this_program;

/// Bytes of a page, for a process that tests start.
const PAGE_BYTES: &str = "SHEAVES_TEST_PAGE_BYTES";

unsafe extern "C" {
    /// What `getauxval` is in glibc.
    fn __getauxval(kind: libc::c_ulong) -> libc::c_ulong;
}

/// The engine starts before `main`, so this reads the environment as C does.
#[unsafe(no_mangle)]
extern "C" fn getauxval(kind: libc::c_ulong) -> libc::c_ulong {
    if kind == libc::AT_PAGESZ {
        // SAFETY: a C string; nobody changes the environment.
        let asked = unsafe { libc::getenv(c"SHEAVES_TEST_PAGE_BYTES".as_ptr()) };
        if !asked.is_null() {
            // SAFETY: a C string of the environment.
            return unsafe { libc::strtoul(asked, core::ptr::null_mut(), 10) };
        }
    }
    // SAFETY: the call has no precondition.
    unsafe { __getauxval(kind) }
}

/// Also the first handle of a process: its object lies in a row that is as long as it begins.
#[test]
fn everything_with_larger_pages() {
    const PARTS: [&str; 5] = ["objects::", "values::", "bad_input::", "limits::", "storm::"];
    // Once is enough: not in every configuration.
    if [PAGE_BYTES, crate::engines::EXPECT].iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    for bytes in ["16384", "65536"] {
        let output = this_program()
            .args(PARTS)
            .env(PAGE_BYTES, bytes)
            .env("SHEAVES_STORM_SECONDS", "0.2")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{bytes}: {}\n{text}\n{errors}", output.status);
    }
}
