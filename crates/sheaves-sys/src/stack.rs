//! The calling thread's stack, walked by frame pointers: for samples of allocations.
//!
//! A program that is compiled with `-fno-omit-frame-pointer` links its frames: at the frame pointer
//! are the caller's frame pointer and the return address. Without them a walk yields the first
//! address only.
//!
//! A walk never faults, takes no lock, and calls no unwinder: those allocate or lock. It reads two
//! kinds of memory:
//!
//! - The thread's own stack, between the stack pointer and its top: glibc puts a thread's control
//!   block at the top of its stack, and notes the top of the first thread's. That every page
//!   between is readable is checked once, by `process_vm_readv` on this process, and noted in the
//!   thread's area.
//! - A copy of what is above the stack pointer, where that is not so: on the stack of a coroutine
//!   or of a signal handler. The kernel makes the copy, and refuses what is not readable.

use crate::{errno, map, process, tls};

/// Stack pointer and frame pointer where a function of the library is entered: at the stack pointer
/// is the return address into its caller, or there it has been stored.
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// The stack pointer; 0 where it is not known.
    pub stack: usize,
    /// The frame pointer of the caller, if it keeps one.
    pub frame: usize,
}

impl Frame {
    /// An unknown caller.
    pub const NONE: Frame = Frame { stack: 0, frame: 0 };
}

/// Words that are copied from a stack whose bounds are not known.
pub const COPY_WORDS: usize = 512;
/// A stack pointer that is further below a top is not on the stack of that top.
const STACK_BYTES_MAX: usize = 64 << 20;
/// No program has code below this.
const ADDRESS_MIN: usize = 4096;
/// Pages that one system call checks.
const PAGES_AT_ONCE: usize = 64;

/// Stores the return addresses of the callers, the innermost first, and returns their number.
///
/// `copy` is room for a copy of the stack.
///
/// # Safety
/// `frame` is [`Frame::NONE`], or of a function that has not returned.
pub unsafe fn walk(frame: Frame, copy: &mut [usize; COPY_WORDS], out: &mut [usize]) -> usize {
    if frame.stack == 0 || out.is_empty() {
        return 0;
    }
    // SAFETY: the frame's function has not returned, so its return address is there.
    out[0] = unsafe { read(frame.stack) };
    let top = top_of(frame.stack);
    let rest = &mut out[1..];
    let count = if top != 0 {
        // SAFETY: `follow` asks for words between the stack pointer and the top, all readable.
        follow(frame, top, rest, |address| unsafe { read(address) })
    } else {
        let bytes = copy_stack(frame.stack, copy);
        follow(frame, frame.stack + bytes, rest, |address| copy[(address - frame.stack) / 8])
    };
    1 + count
}

/// # Safety
/// An aligned word that is readable.
unsafe fn read(address: usize) -> usize {
    // SAFETY: the same contract. Volatile, since the word may belong to any object on the stack.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}

/// Follows frame pointers while they go up, and are aligned and below `top`.
fn follow(from: Frame, top: usize, out: &mut [usize], read: impl Fn(usize) -> usize) -> usize {
    let (mut frame, mut lowest) = (from.frame, from.stack);
    for (index, place) in out.iter_mut().enumerate() {
        let is_frame = frame > lowest && frame.is_multiple_of(8) && top.saturating_sub(16) >= frame;
        let caller = if is_frame { read(frame + 8) } else { 0 };
        // The outermost function of a thread returns to address 0, or has no frame pointer.
        if caller < ADDRESS_MIN {
            return index;
        }
        *place = caller;
        (lowest, frame) = (frame, read(frame));
    }
    out.len()
}

/// The top of the thread's stack if the stack pointer is on it and all between is readable; else 0.
fn top_of(stack: usize) -> usize {
    let top = tls::stack_top();
    if (tls::stack_low()..top).contains(&stack) { top } else { find_top(stack) }
}

#[cold]
fn find_top(stack: usize) -> usize {
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    let tops = [tls::thread_pointer(), tls::libc_stack_end()];
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    let tops = [0; 0];
    let low = stack / map::page_bytes() * map::page_bytes();
    for top in tops {
        let is_near = top > stack && top - stack <= STACK_BYTES_MAX;
        // What was checked before is not checked again.
        let known = tls::stack_low();
        let end = if tls::stack_top() == top && known > low { known } else { top };
        if is_near && is_readable(low, end) {
            tls::set_stack_low(low);
            tls::set_stack_top(top);
            return top & !7;
        }
    }
    0
}

/// True when every page of a range is readable.
fn is_readable(start: usize, end: usize) -> bool {
    let page = map::page_bytes();
    let mut bytes = [0_u8; PAGES_AT_ONCE];
    let mut address = start;
    while address < end {
        let mut parts = [EMPTY; PAGES_AT_ONCE];
        let count = (end - address).div_ceil(page).min(PAGES_AT_ONCE);
        for (index, part) in parts[..count].iter_mut().enumerate() {
            *part = part_of(address + index * page, 1);
        }
        if copy_from_self(&mut bytes, &parts[..count]) != count {
            return false;
        }
        address += count * page;
    }
    true
}

/// Copies the stack from a stack pointer up, as far as it is readable; returns the bytes.
fn copy_stack(stack: usize, copy: &mut [usize; COPY_WORDS]) -> usize {
    let page = map::page_bytes();
    let mut parts = [EMPTY; 3];
    let (mut address, mut count) = (stack, 0);
    let end = stack + size_of_val(copy);
    // By pages: the kernel copies whole parts.
    while address < end && count < parts.len() {
        let next = ((address / page + 1) * page).min(end);
        parts[count] = part_of(address, next - address);
        (address, count) = (next, count + 1);
    }
    // SAFETY: any bytes are words.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(copy.as_mut_ptr().cast::<u8>(), size_of_val(copy))
    };
    copy_from_self(bytes, &parts[..count]) & !7
}

const EMPTY: libc::iovec = part_of(0, 0);

const fn part_of(address: usize, bytes: usize) -> libc::iovec {
    libc::iovec { iov_base: core::ptr::with_exposed_provenance_mut(address), iov_len: bytes }
}

/// Copies memory of this process by the kernel, which stops at the first part that is not readable.
/// Returns the bytes, 0 where the kernel refuses.
fn copy_from_self(to: &mut [u8], from: &[libc::iovec]) -> usize {
    let to = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let (process, parts) = (process::id(), from.len() as libc::c_ulong);
    let copied = errno::preserve(|| {
        // SAFETY: the kernel writes to `to` only, and checks every address of `from`.
        unsafe { libc::process_vm_readv(process, &raw const to, 1, from.as_ptr(), parts, 0) }
    });
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
#[path = "../tests/unit/stack.rs"]
mod tests;
