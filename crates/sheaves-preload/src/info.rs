//! glibc's statistics calls: `mallinfo2`, `malloc_stats`, `malloc_trim` and the like.

use core::ffi::{CStr, c_int, c_void};
use core::fmt::Write;

use sheaves_heap::report::{self, Format, Totals};
use sheaves_sys::report::Line;
use sheaves_sys::{errno, options};

/// `struct mallinfo2` of glibc: `arena`, `ordblks`, `smblks`, `hblks`, `hblkhd`, `usmblks`,
/// `fsmblks`, `uordblks`, `fordblks` and `keepcost`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MallInfo2([usize; 10]);

/// `struct mallinfo` of glibc: the same fields as `int`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MallInfo([c_int; 10]);

/// The totals, with what is free as part of the heap.
fn totals() -> Totals {
    let mut totals = report::totals();
    totals.heap_bytes += totals.idle_bytes;
    totals
}

/// `mallinfo2(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    let Totals {
        used_bytes, cached_bytes, dirty_bytes, heap_bytes, large_bytes, large_blocks, ..
    } = totals();
    let (used, free) = (used_bytes.saturating_sub(large_bytes), cached_bytes + dirty_bytes);
    MallInfo2([
        heap_bytes,
        0,
        0,
        large_blocks,
        large_bytes,
        0,
        cached_bytes,
        used,
        free,
        dirty_bytes,
    ])
}

/// `mallinfo(3)`; values above `INT_MAX` are reported as `INT_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo {
    MallInfo(mallinfo2().0.map(|field| c_int::try_from(field).unwrap_or(c_int::MAX)))
}

/// `malloc_trim(3)`: 1 when memory was returned. `pad` bytes of free memory stay.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    c_int::from(errno::preserve(|| sheaves_heap::trim(pad)))
}

/// `malloc_stats(3)`: statistics on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    report::print(2, Format::Text);
}

/// From `<malloc.h>`.
const M_TRIM_THRESHOLD: c_int = -1;
const M_ARENA_TEST: c_int = -7;
const M_ARENA_MAX: c_int = -8;

/// `mallopt(3)`: 1 for what is followed, 0 for all other parameters.
///
/// | parameter | value | meaning |
/// |---|---|---|
/// | `M_TRIM_THRESHOLD` | -1 | unused memory is kept for ever, as with `SHEAVES_DECAY_MS=-1` |
/// | `M_TRIM_THRESHOLD` | 0 | unused memory is not kept |
/// | `M_ARENA_MAX` | any | there is one heap, which is below any limit |
/// | `M_ARENA_TEST` | above 0 | the same |
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    // Otherwise a constructor of the program would be overruled by the environment.
    options::read();
    match (parameter, value) {
        (M_TRIM_THRESHOLD, -1) => options::DECAY_MS.set(options::NEVER),
        (M_TRIM_THRESHOLD, 0) => options::DECAY_MS.set(0),
        (M_ARENA_MAX, _) | (M_ARENA_TEST, 1..) => {}
        _ => return 0,
    }
    1
}

exports! { "C"
    /// glibc's second name of [`mallopt`].
    __libc_mallopt(parameter: c_int, value: c_int) -> c_int = mallopt(parameter, value);
    /// glibc's second name of [`mallinfo`].
    __libc_mallinfo() -> MallInfo = mallinfo();
}

/// `malloc_info(3)`: a short XML document on a stream. For options other than 0 the value is
/// `EINVAL`, and `errno` is kept.
///
/// # Safety
/// `stream` is an open `FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        return errno::EINVAL;
    }
    let Totals {
        used_bytes, cached_bytes, dirty_bytes, heap_bytes, large_bytes, large_blocks, ..
    } = totals();
    let mut text = Line::new();
    let _ = writeln!(
        text,
        r#"<malloc version="sheaves-1">
<total type="used" size="{used_bytes}"/>
<total type="cached" size="{cached_bytes}"/>
<total type="dirty" size="{dirty_bytes}"/>
<total type="mmap" count="{large_blocks}" size="{large_bytes}"/>
<system type="current" size="{heap_bytes}"/>
</malloc>{}"#,
        '\0'
    );
    let text = CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or_default();
    // SAFETY: the stream is the caller's.
    let written = unsafe { sheaves_sys::report::write_to_stream(stream, text) };
    if written { 0 } else { -1 }
}
