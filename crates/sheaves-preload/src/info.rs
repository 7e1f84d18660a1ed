//! glibc's statistics calls: `mallinfo2`, `malloc_stats`, `malloc_trim` and the like.

use core::ffi::{CStr, c_int, c_void};
use core::fmt::Write;

use sheaves_heap::report::{self, Format, Totals};
use sheaves_sys::errno;
use sheaves_sys::report::Line;

/// `struct mallinfo2` of glibc.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct MallInfo2 {
    /// Address space of the heap, in bytes.
    pub arena: usize,
    /// Not used.
    pub ordblks: usize,
    /// Not used.
    pub smblks: usize,
    /// Number of blocks with a mapping of their own.
    pub hblks: usize,
    /// Bytes of those blocks.
    pub hblkhd: usize,
    /// Not used.
    pub usmblks: usize,
    /// Bytes of free objects in caches.
    pub fsmblks: usize,
    /// Bytes in use.
    pub uordblks: usize,
    /// Bytes that are free.
    pub fordblks: usize,
    /// Bytes that `malloc_trim` could return to the kernel.
    pub keepcost: usize,
}

/// `mallinfo2(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallInfo2 {
    let Totals { used_bytes, cached_bytes, dirty_bytes, heap_bytes, huge_bytes, huge_blocks } =
        report::totals();
    MallInfo2 {
        arena: heap_bytes,
        hblks: huge_blocks,
        hblkhd: huge_bytes,
        fsmblks: cached_bytes,
        uordblks: used_bytes.saturating_sub(huge_bytes),
        fordblks: cached_bytes + dirty_bytes,
        keepcost: dirty_bytes,
        ..MallInfo2::default()
    }
}

/// `struct mallinfo` of glibc: the same fields as `int`, which overflow.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct MallInfo([c_int; 10]);

/// `mallinfo(3)`; values above `INT_MAX` are reported as `INT_MAX`.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallInfo {
    let info = mallinfo2();
    let fields = [
        info.arena,
        info.ordblks,
        info.smblks,
        info.hblks,
        info.hblkhd,
        info.usmblks,
        info.fsmblks,
        info.uordblks,
        info.fordblks,
        info.keepcost,
    ];
    MallInfo(fields.map(|field| c_int::try_from(field).unwrap_or(c_int::MAX)))
}

/// `malloc_trim(3)`: 1 when memory was returned. `pad` is ignored: no memory is retained.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    c_int::from(errno::preserve(sheaves_heap::trim))
}

/// `malloc_stats(3)`: statistics on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    report::print(2, Format::Text);
}

/// `mallopt(3)`: accepts every parameter and changes nothing. A caller cannot distinguish that from
/// a hint that was followed.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(_parameter: c_int, _value: c_int) -> c_int {
    1
}

/// `malloc_info(3)`: a short XML document on a stream; `EINVAL` for options other than 0.
///
/// # Safety
/// `stream` is an open `FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        errno::set(errno::EINVAL);
        return -1;
    }
    let totals = report::totals();
    let mut text = Line::new();
    let _ = writeln!(
        text,
        "<malloc version=\"sheaves-1\">\n<total type=\"used\" size=\"{}\"/>\n\
         <total type=\"cached\" size=\"{}\"/>\n<total type=\"dirty\" size=\"{}\"/>\n\
         <total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n<system type=\"current\" size=\"{}\"/>\n\
         </malloc>\0",
        totals.used_bytes,
        totals.cached_bytes,
        totals.dirty_bytes,
        totals.huge_blocks,
        totals.huge_bytes,
        totals.heap_bytes
    );
    let text = CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or_default();
    // SAFETY: the stream is the caller's.
    let written = unsafe { sheaves_sys::report::write_to_stream(stream, text) };
    if written { 0 } else { -1 }
}
