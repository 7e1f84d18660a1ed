//! The variables of the environment that may be options. Nothing else reads `environ`.

use core::ffi::{CStr, c_char};

use crate::process;

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// What the names of all options begin with.
pub(super) const PREFIX: &str = concat!("SHEAVES", "_");

/// Calls `visit` with name and value of each variable whose name begins with [`PREFIX`]. False
/// where there is no environment to read.
///
/// Reads `environ` or, inside the dynamic linker, before libc has set that, `/proc/self/environ`.
#[unsafe(link_section = ".text.sheaves_load")]
pub(super) fn each(mut visit: impl FnMut(&str, &[u8])) -> bool {
    let mut visit = |variable: &[u8]| {
        if let Some((name, value)) = split(variable) {
            visit(name, value);
        }
    };
    // SAFETY: reading the pointer; libc owns it.
    let table = unsafe { environ };
    if table.is_null() {
        return each_in_file(c"/proc/self/environ", &mut visit);
    }
    for index in 0.. {
        // SAFETY: the table ends with a null pointer, where this ends.
        let variable = unsafe { table.wrapping_add(index).read() };
        if variable.is_null() {
            break;
        }
        // SAFETY: variables are C strings.
        visit(unsafe { CStr::from_ptr(variable) }.to_bytes());
    }
    true
}

fn split(variable: &[u8]) -> Option<(&str, &[u8])> {
    let end = variable.iter().position(|byte| *byte == b'=')?;
    let name = core::str::from_utf8(&variable[..end]).ok()?;
    name.starts_with(PREFIX).then_some((name, &variable[end + 1..]))
}

/// Bytes of a variable that are looked at: a longer one is no option.
const VARIABLE_BYTES_MAX: usize = 16 * 1024;

// Its buffer is no part of the frames of callers: the first touch of each page is a page fault.
#[cold]
#[inline(never)]
fn each_in_file(path: &CStr, visit: &mut dyn FnMut(&[u8])) -> bool {
    let mut buffer = [0_u8; VARIABLE_BYTES_MAX];
    // The next bytes are the end of a variable that is too long.
    let mut is_end = false;
    process::read_parts(path, &mut buffer, |part| {
        let mut rest = part;
        while let Some(end) = rest.iter().position(|byte| *byte == 0) {
            if !is_end {
                visit(&rest[..end]);
            }
            (is_end, rest) = (false, &rest[end + 1..]);
        }
        if rest.len() == VARIABLE_BYTES_MAX {
            (is_end, rest) = (true, &[]);
        }
        rest.len()
    })
}

#[cfg(test)]
#[path = "../../tests/unit/environment.rs"]
mod tests;
