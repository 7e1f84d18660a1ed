//! Facts about this process, and small reads of kernel files.

use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::mem::MaybeUninit;

use crate::errno::preserve;
use crate::report::{Line, write_all};
use crate::{clock, sandbox};

/// A value of the auxiliary vector, 0 where the kernel does not provide it.
pub fn auxiliary(kind: libc::c_ulong) -> usize {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: getauxval has no precondition.
    unsafe { libc::getauxval(kind) as usize }
}

/// True in a program that has more rights than its caller (`AT_SECURE`): it must not trust it.
pub fn is_secure() -> bool {
    auxiliary(libc::AT_SECURE) != 0
}

/// Sixteen random bytes from the kernel (`AT_RANDOM`), hashed to one word: the same at each call; 0
/// where absent. libc derives its own secrets from the two halves; the sum reveals neither.
pub fn random_seed() -> u64 {
    let address = auxiliary(libc::AT_RANDOM) as *const u64;
    if address.is_null() {
        return 0;
    }
    // SAFETY: AT_RANDOM points at 16 bytes that live as long as the process.
    let halves = unsafe { address.cast::<[u64; 2]>().read_unaligned() };
    scramble(halves[0]).wrapping_add(scramble(!halves[1]))
}

/// A random word from the kernel (`getrandom`), another one at each call; derived from
/// [`random_seed`] and the time where the kernel has none yet, and in a sandbox.
pub fn random() -> u64 {
    let mut word = 0_u64;
    let (place, bytes) = ((&raw mut word).cast::<libc::c_void>(), size_of::<u64>());
    let fill = || {
        // SAFETY: `word` is valid for the call to fill.
        unsafe { libc::syscall(libc::SYS_getrandom, place, bytes, libc::GRND_NONBLOCK) }
    };
    let is_filled = !sandbox::is_entered() && preserve(fill) == 8;
    if is_filled { word } else { random_seed() ^ scramble(clock::fine_ns()) }
}

/// Bytes of the machine's memory; `usize::MAX` where the kernel does not tell, and in a sandbox.
/// One system call.
pub fn physical_bytes() -> usize {
    if sandbox::is_entered() {
        return usize::MAX;
    }
    // SAFETY: an all-zero value is valid to be filled.
    let mut info: libc::sysinfo = unsafe { core::mem::zeroed() };
    // SAFETY: valid for the call to fill.
    match unsafe { libc::sysinfo(&raw mut info) } {
        0 => (info.totalram as usize).saturating_mul(info.mem_unit as usize),
        _ => usize::MAX,
    }
}

/// The finaliser of splitmix64 (Steele, Lea, Flood 2014): of numbers that differ by an odd constant
/// it makes random ones.
pub fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Reads the beginning of a file into `buffer`; `None` where it cannot be opened.
///
/// Uses bare system calls: libc's wrappers are cancellation points, where `pthread_cancel` may end
/// a thread that holds a lock. Async-signal-safe except for `errno`.
pub fn read_file(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    let mut used = 0;
    let all = |part: &[u8]| {
        used = part.len();
        used
    };
    read_parts(path, buffer, all).then_some(used)
}

/// [`read_file`] of a path that is put together; `None` also where it is too long.
pub(crate) fn read_file_at(path: fmt::Arguments<'_>, buffer: &mut [u8]) -> Option<usize> {
    with_path(path, |path| read_file(path, buffer))
}

/// [`read_file_at`] by one read, also where a thread has said that it is about to enter a sandbox.
pub(crate) fn read_once_at(path: fmt::Arguments<'_>, buffer: &mut [u8]) -> Option<usize> {
    let fd = with_path(path, |path| open_always(path, libc::O_RDONLY, 0))?;
    let used = read(fd, buffer);
    close(fd);
    Some(used)
}

fn with_path<R>(path: fmt::Arguments<'_>, body: impl FnOnce(&CStr) -> Option<R>) -> Option<R> {
    let mut text = Line::new();
    let _ = write!(text, "{path}\0");
    // A path that is too long was truncated, with its terminator.
    body(CStr::from_bytes_with_nul(text.as_bytes()).ok()?)
}

/// Reads some bytes, and returns their number; 0 at the end of the file, without room, and where
/// that fails.
fn read(fd: i32, room: &mut [u8]) -> usize {
    // SAFETY: `room` is valid for writes of its length.
    let count = unsafe { libc::syscall(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) };
    usize::try_from(count).unwrap_or(0)
}

/// Passes a file to `take` in parts, by way of `buffer`. What `take` returns is the number of bytes
/// at the end of a part that it gets again, before those that follow. It ends with the file, or
/// where all of a full buffer is kept. False where the file cannot be opened.
pub(crate) fn read_parts(
    path: &CStr,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> usize,
) -> bool {
    let Some(fd) = open(path, libc::O_RDONLY, 0) else { return false };
    let mut kept = 0;
    while let count @ 1.. = read(fd, &mut buffer[kept..]) {
        let used = kept + count;
        kept = take(&buffer[..used]);
        buffer.copy_within(used - kept..used, 0);
    }
    close(fd);
    true
}

/// Copies a file to a descriptor. Returns 0, or the value of `errno` for which the rest is lost.
pub fn copy_file(path: &CStr, to: i32) -> i32 {
    let mut status = 0;
    read_parts(path, &mut [0; 1024], |part| {
        if status == 0 {
            status = write_all(to, part);
        }
        0
    });
    status
}

/// Closes a file descriptor that the caller owns.
pub fn close(fd: i32) {
    // SAFETY: closing a descriptor touches no memory; the caller owns it.
    let _ = unsafe { libc::syscall(libc::SYS_close, fd) };
}

/// Opens `path` for appending, with mode 0644 if it is created; `None` where that fails.
#[must_use]
pub fn open_append(path: &CStr) -> Option<i32> {
    open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND, 0o644)
}

/// Creates or empties a file that only its owner may read; `None` where that fails.
#[must_use]
pub fn create_private(path: &CStr) -> Option<i32> {
    open(path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, 0o600)
}

/// Opens a file with close-on-exec; not in a sandbox.
fn open(path: &CStr, flags: libc::c_int, mode: libc::c_uint) -> Option<i32> {
    if sandbox::is_entered() { None } else { open_always(path, flags, mode) }
}

/// Not by libc's function, in which a thread that holds a lock could be cancelled.
fn open_always(path: &CStr, flags: libc::c_int, mode: libc::c_uint) -> Option<i32> {
    let (here, flags) = (libc::AT_FDCWD, flags | libc::O_CLOEXEC);
    // SAFETY: `path` is a C string.
    let fd = unsafe { libc::syscall(libc::SYS_openat, here, path.as_ptr(), flags, mode) };
    i32::try_from(fd).ok().filter(|fd| *fd >= 0)
}

/// The type of libc's names of resources.
#[cfg(target_env = "musl")]
type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Resource = libc::__rlimit_resource_t;

/// What Miri may spend on address space: it has memory for all that is reserved.
const MIRI_BYTES: libc::rlim_t = 256 << 20;

/// The soft limit of a resource; [`libc::RLIM_INFINITY`] where there is none.
pub(crate) fn limit(resource: Resource) -> libc::rlim_t {
    if cfg!(miri) {
        return MIRI_BYTES;
    }
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: `limit` is valid for the call to fill.
    preserve(|| unsafe { libc::getrlimit(resource, &raw mut limit) });
    limit.rlim_cur
}

/// Duplicates `fd` with close-on-exec; returns `fd` itself where that fails.
#[must_use]
pub fn duplicate(fd: i32) -> i32 {
    // Above the descriptors that programs use by number.
    const LOWEST: i32 = 100;
    // SAFETY: fcntl with integers only.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, LOWEST) };
    if copy < 0 { fd } else { copy }
}

/// What an open file has for as long as it exists, and no other file; `None` for a descriptor that
/// is not open. Keeps `errno`.
#[must_use]
pub fn file_of(fd: i32) -> Option<[u64; 2]> {
    status_of(fd).map(|file| [file.st_dev, file.st_ino])
}

/// `fstat(2)`; `None` for a descriptor that is not open. Keeps `errno`.
pub(crate) fn status_of(fd: i32) -> Option<libc::stat> {
    let mut file = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `file` is valid for the call to fill.
    let is_known = preserve(|| unsafe { libc::fstat(fd, file.as_mut_ptr()) }) == 0;
    // SAFETY: zeroed or filled; any bytes are valid.
    is_known.then(|| unsafe { file.assume_init() })
}

/// The identifier of this process.
pub fn id() -> i32 {
    // SAFETY: getpid has no precondition.
    unsafe { libc::getpid() }
}

/// The file that the kernel executed as this program; for a script, that of the script.
pub fn program() -> Option<&'static CStr> {
    let path = core::ptr::with_exposed_provenance::<core::ffi::c_char>(auxiliary(libc::AT_EXECFN));
    // SAFETY: null, or a C string of the kernel's that lives as long as the process.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}
