//! Pages of 16 and 64 KiB, as arm64 and ppc64 have them.
//!
//! The library asks `getauxval` for the size of a page. This program defines its own, which returns
//! the environment's value. So everything is rounded as on such a machine, although this machine
//! could protect memory in smaller pieces.

use crate::own_process;

/// Bytes of a page, for a process that tests start.
const PAGE_BYTES: &str = "SHEAVES_TEST_PAGE_BYTES";

unsafe extern "C" {
    /// The signature of glibc's `getauxval`.
    fn __getauxval(kind: libc::c_ulong) -> libc::c_ulong;
}

/// The engine starts before `main`, so this reads the environment as C does.
#[unsafe(no_mangle)]
extern "C" fn getauxval(kind: libc::c_ulong) -> libc::c_ulong {
    if kind == libc::AT_PAGESZ {
        // SAFETY: a C string; no thread changes the environment.
        let asked = unsafe { libc::getenv(c"SHEAVES_TEST_PAGE_BYTES".as_ptr()) };
        if !asked.is_null() {
            // SAFETY: a C string of the environment.
            return unsafe { libc::strtoul(asked, core::ptr::null_mut(), 10) };
        }
    }
    // SAFETY: the call has no precondition.
    unsafe { __getauxval(kind) }
}

/// Includes the first handle of a process, whose object is in a row of the initial length.
#[test]
fn everything_with_larger_pages() {
    const PARTS: [&str; 6] =
        ["objects::", "values::", "bad_input::", "limits::", "resident::", "storm::"];
    // Once is enough, so not in every configuration.
    if [PAGE_BYTES, crate::engines::EXPECT].iter().any(|name| std::env::var_os(name).is_some()) {
        return;
    }
    // SAFETY: no precondition. glibc does not ask `getauxval`.
    let real_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    for bytes in [16_384, 65_536].into_iter().filter(|bytes| *bytes > real_bytes) {
        let output = own_process::command(&[])
            .args(PARTS)
            .env(PAGE_BYTES, bytes.to_string())
            .env("SHEAVES_STORM_SECONDS", "0.2")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{bytes}: {}\n{text}\n{errors}", output.status);
    }
}
