//! Messages on standard error, and the abort of a process whose heap is corrupt.
//!
//! A line begins with `sheaves: `. It is built in a fixed buffer on the stack, so that nothing is
//! allocated, and written by one `write`, so that lines of several threads do not mix.

use core::fmt::{self, Write};

/// Bytes of one line, with its newline; longer text is truncated.
const LINE_BYTES: usize = 512;

/// A fixed buffer for text, of which what does not fit is dropped.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Line {
    /// An empty line.
    #[expect(clippy::new_without_default, reason = "one constructor is enough")]
    pub const fn new() -> Line {
        Line { bytes: [0; LINE_BYTES], used: 0 }
    }

    /// What has been written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Empties the line.
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// Writes the line to `fd` and empties it. Returns 0, or the value of `errno` for which the
    /// rest of the text is lost.
    pub fn flush_to(&mut self, fd: i32) -> i32 {
        let status = write_all(fd, self.as_bytes());
        self.used = 0;
        status
    }
}

/// Writes bytes to `fd`. Returns 0, or the value of `errno` for which the rest is lost.
pub(crate) fn write_all(fd: i32, mut rest: &[u8]) -> i32 {
    while !rest.is_empty() {
        // The bare system call, which is not a cancellation point: see `process::read_file`.
        // SAFETY: `rest` is a valid slice of initialised bytes.
        #[cfg(not(miri))]
        let written = unsafe { libc::syscall(libc::SYS_write, fd, rest.as_ptr(), rest.len()) };
        // SAFETY: as above.
        #[cfg(miri)]
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) if count > 0 => rest = &rest[count..],
            Err(_) if crate::errno::get() == libc::EINTR => {}
            _ => return crate::errno::get(),
        }
    }
    0
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LINE_BYTES - self.used;
        let taken = text.len().min(room);
        self.bytes[self.used..self.used + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.used += taken;
        Ok(())
    }
}

/// Prints one line, `sheaves: ` and the text, on standard error; nothing in a sandbox.
///
/// Never allocates and keeps `errno`. Async-signal-safe.
pub fn report(text: fmt::Arguments<'_>) {
    if !crate::sandbox::is_entered() {
        report_to(libc::STDERR_FILENO, text);
    }
}

/// [`report`] to another file descriptor.
pub fn report_to(fd: i32, text: fmt::Arguments<'_>) {
    crate::errno::preserve(|| {
        let mut line = Line::new();
        let _ = writeln!(line, "sheaves: {text}");
        // A truncated line still ends with a newline.
        if line.used == LINE_BYTES {
            line.bytes[LINE_BYTES - 1] = b'\n';
        }
        line.flush_to(fd);
    });
}

/// Writes a text to a `FILE` of libc. False when that fails.
///
/// # Safety
/// `stream` is an open `FILE`.
#[must_use]
pub unsafe fn write_to_stream(stream: *mut core::ffi::c_void, text: &core::ffi::CStr) -> bool {
    // SAFETY: `text` is a C string; the stream is the caller's.
    unsafe { libc::fputs(text.as_ptr(), stream.cast()) >= 0 }
}

/// Prints one line and aborts the process: the heap is corrupt or an invariant is broken.
///
/// No unwinding and no destructors: a process that continues with a corrupt heap does more damage.
#[cold]
#[inline(never)]
pub fn die(text: fmt::Arguments<'_>) -> ! {
    report_to(libc::STDERR_FILENO, text);
    abort()
}

/// Aborts the process, after a report of several lines.
#[cold]
pub fn abort() -> ! {
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}
