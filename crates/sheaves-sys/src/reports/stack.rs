//! The calling thread's stack, walked by frame pointers, or else by libgcc: for samples of
//! allocations.
//!
//! With `-fno-omit-frame-pointer` frames are linked: at the frame pointer are the caller's frame
//! pointer and the return address. Where they end before the stack does, [`unwind`] goes on, if it
//! was found, at several times the price. To tell an early end from the right one, the return
//! addresses are remembered at which frame pointers end with the stack: libc calls `main` and the
//! functions of threads each from one place.
//!
//! A walk by frame pointers takes no lock. The kernel is asked whether a page is readable before
//! frame pointers are read there, by a futex call that does not wait. What is read lies between the
//! stack pointer and the top of the thread's stack, which stays mapped: glibc puts a thread's
//! control block there, and notes the top of the first thread's. On another stack, of a coroutine
//! or of a signal handler, it lies within `OTHER_BYTES_MAX` above the stack pointer. If another
//! thread unmaps such a page between the question and the read, the walk faults.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::futex;
use crate::map;
use crate::reports::unwind::{self, Unwinder};
use crate::tls;

/// Stack pointer and frame pointer where a function of the library is entered: at the stack pointer
/// is the return address into its caller, or there it has been stored.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Frame {
    /// The stack pointer; 0 where it is not known.
    stack: usize,
    /// The frame pointer of the caller, if it keeps one.
    frame: usize,
}

impl Frame {
    /// An unknown caller.
    pub const NONE: Frame = Frame { stack: 0, frame: 0 };

    /// Naked functions make one of their registers.
    ///
    /// # Safety
    /// They are those of a function, which does not return before the frame was used last.
    #[must_use]
    pub const unsafe fn of(stack: usize, frame: usize) -> Frame {
        Frame { stack, frame }
    }
}

/// A stack pointer that is further below a top is not on the stack of that top.
const STACK_BYTES_MAX: usize = 64 << 20;
/// Bytes of the stack of a thread that are looked at before libgcc walks it.
const OWN_BYTES_MAX: usize = 512 << 10;
/// A walk on a stack whose top is not known goes no further.
const OTHER_BYTES_MAX: usize = 64 << 10;
/// No program has code below this.
const ADDRESS_MIN: usize = 4096;
/// The most addresses that are stored.
pub const FRAMES_MAX: usize = 64;
/// Functions of libc between that to which `main` returns and the outermost one.
const OUTER: usize = 2;

/// Return addresses at which frame pointers end with the stack; 0 for none.
static ENDS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Stores the return addresses of the callers, the innermost first, and returns their number.
/// Async-signal-safe.
pub fn walk(frame: Frame, out: &mut [usize]) -> usize {
    let Frame { stack, frame } = frame;
    if stack == 0 || out.is_empty() {
        return 0;
    }
    // SAFETY: the frame's function has not returned, so its return address is there.
    out[0] = unsafe { read(stack) };
    let top = known_top(stack).unwrap_or(stack + OTHER_BYTES_MAX);
    let mut page = stack & page_mask();
    let count = 1 + follow(stack + 1, frame, top, &mut out[1..], |word| {
        // SAFETY: aligned, and readable.
        is_known(word, &mut page).then(|| unsafe { read(word) })
    });
    // Relaxed: a number.
    let is_end = |end: &AtomicUsize| end.load(Ordering::Relaxed) == out[count - 1];
    let is_done = count == out.len() || ENDS.iter().any(is_end);
    let may_go_on = !is_done && unwind::state() == Unwinder::Found && is_own(stack);
    if may_go_on { unwound(stack, count, out) } else { count }
}

/// True if the stack pointer is on the stack that libc has made for the thread: libgcc reads
/// whatever a frame says, also what the outermost frame of a coroutine does. The first thread's
/// stack has nothing else near. Below that of another one is an inaccessible page.
fn is_own(stack: usize) -> bool {
    let Some(top) = known_top(stack) else { return false };
    let start = stack & page_mask();
    top == tls::libc_stack_end() & !7
        || (top - start <= OWN_BYTES_MAX && map::populate_read(start, top - start))
}

/// Replaces `count` addresses, which may be too few, by those that libgcc finds.
fn unwound(stack: usize, count: usize, out: &mut [usize]) -> usize {
    let mut all = [0; FRAMES_MAX];
    let room = out.len().min(FRAMES_MAX);
    let (found, is_whole) = unwind::walk(stack, out[0], &mut all[..room]);
    if found < count {
        return count;
    }
    let outer = &all[found.saturating_sub(OUTER + 1)..found];
    if is_whole && outer.contains(&out[count - 1]) {
        // Relaxed, both: a number. The first free place; where two threads take one, one is lost.
        let place = ENDS.iter().find(|end| end.load(Ordering::Relaxed) == 0);
        let _ = place.map(|end| end.store(out[count - 1], Ordering::Relaxed));
    }
    out[..found].copy_from_slice(&all[..found]);
    found
}

/// # Safety
/// An aligned word that is readable.
unsafe fn read(address: usize) -> usize {
    // SAFETY: the same contract. Volatile, since the word may belong to any object on the stack.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read_volatile() }
}

/// Follows frame pointers while they go up from `lowest`, and are aligned and below `top`. `read`
/// reads an aligned word, if it can be read.
pub(super) fn follow(
    mut lowest: usize,
    mut frame: usize,
    top: usize,
    out: &mut [usize],
    mut read: impl FnMut(usize) -> Option<usize>,
) -> usize {
    for (index, place) in out.iter_mut().enumerate() {
        let is_frame =
            frame >= lowest && frame.is_multiple_of(8) && top.saturating_sub(16) >= frame;
        // The outermost function of a thread returns to address 0, or has no frame pointer.
        let caller = if is_frame { read(frame + 8) } else { None };
        let Some(caller) = caller.filter(|caller| *caller >= ADDRESS_MIN) else { return index };
        *place = caller;
        (lowest, frame) = (frame + 1, read(frame).unwrap_or(0));
    }
    out.len()
}

fn page_mask() -> usize {
    !(map::page_bytes() - 1)
}

/// True if a word is in `page`, which is readable, or in another page that is.
fn is_known(address: usize, page: &mut usize) -> bool {
    let of_word = address & page_mask();
    if of_word == *page {
        return true;
    }
    let is_readable = futex::is_readable(address & !3);
    if is_readable {
        *page = of_word;
    }
    is_readable
}

/// The top of the thread's stack if the stack pointer is below it.
fn known_top(stack: usize) -> Option<usize> {
    let tops = [tls::thread_pointer(), tls::libc_stack_end()];
    let is_near = |top: &usize| *top > stack && *top - stack <= STACK_BYTES_MAX;
    tops.into_iter().find(is_near).map(|top| top & !7)
}

#[cfg(test)]
#[path = "../../tests/unit/stack.rs"]
mod tests;
