//! Where another thread of this process sleeps: functions on its stack, for reports.
//!
//! The kernel tells at which instruction a sleeping thread entered it, and its stack pointer. From
//! there this searches for frame pointers: a word that points to a higher word of the stack, with a
//! return address beside each of the two. Where nothing is found, nothing is said: a thread that
//! runs has no stack here, and functions without frame pointers are left out. What was read of a
//! thread that has woken up meanwhile is dropped; no read can fault. Async-signal-safe.

use core::fmt;

use crate::reports::peek::Memory;
use crate::{errno, process, symbol, thread};

const FRAMES_MAX: usize = 5;
/// How far up the stack is searched.
const SEARCHED_BYTES: usize = 32 << 10;

/// Addresses in functions on a stack, the innermost one first.
#[derive(Debug)]
pub struct Stack {
    addresses: [usize; FRAMES_MAX],
    used: usize,
}

/// The stack of a thread of this process; empty if the thread does not sleep, or is the caller.
pub fn of(id: i32) -> Stack {
    let mut stack = Stack { addresses: [0; FRAMES_MAX], used: 0 };
    if id == thread::id() {
        return stack;
    }
    errno::preserve(|| {
        let Some((pointer, counter)) = sleeps_at(id) else { return };
        if !symbol::is_in_object(counter) {
            return;
        }
        stack.push(counter);
        stack.walk(&mut Memory::new(), pointer);
        if sleeps_at(id) != Some((pointer, counter)) {
            stack.used = 0;
        }
    });
    stack
}

/// Stack pointer and program counter of a thread that sleeps in the kernel.
fn sleeps_at(id: i32) -> Option<(usize, usize)> {
    let mut text = [0; 256];
    let used = process::read_file_at(format_args!("/proc/self/task/{id}/syscall"), &mut text)?;
    // "running", or numbers of which these are the last two.
    let mut words = core::str::from_utf8(&text[..used]).ok()?.split_ascii_whitespace().rev();
    let mut number = || usize::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let counter = number()?;
    Some((number()?, counter))
}

/// Two words that a function with a frame pointer has on the stack.
struct Link {
    /// The frame pointer of its caller.
    frame: usize,
    /// Where it returns to.
    address: usize,
}

impl Stack {
    fn push(&mut self, address: usize) {
        if self.used < FRAMES_MAX {
            self.addresses[self.used] = address;
            self.used += 1;
        }
    }

    fn walk(&mut self, memory: &mut Memory, pointer: usize) {
        let Some(mut link) = first_link(memory, pointer) else { return };
        // The function whose frame this is: the one that its caller has called.
        if let Some(target) = called_before(memory, link.address)
            && symbol::is_function(memory, target)
        {
            self.push(target);
        }
        while self.used < FRAMES_MAX {
            // Inside the call: the address after it may be in the next function.
            self.push(link.address - 1);
            let frame = link.frame;
            match link_at(memory, frame) {
                Some(next) if next.frame > frame => link = next,
                Some(next) => return self.push(next.address - 1),
                None => return,
            }
        }
    }
}

/// The first link above the stack pointer that leads to another one.
fn first_link(memory: &mut Memory, pointer: usize) -> Option<Link> {
    let end = pointer + SEARCHED_BYTES;
    for place in (pointer.next_multiple_of(16)..end).step_by(16) {
        let frame = memory.word(place)? as usize;
        if frame.is_multiple_of(16)
            && (place + 1..end).contains(&frame)
            && let Some(link) = link_at(memory, place)
            && link_at(memory, frame).is_some()
        {
            return Some(link);
        }
    }
    None
}

/// The two words at an aligned address, if the second one is a return address.
fn link_at(memory: &mut Memory, place: usize) -> Option<Link> {
    let frame = memory.word(place)? as usize;
    let address = memory.word(place + 8)? as usize;
    let is_return = symbol::is_in_object(address) && is_after_call(memory, address);
    is_return.then_some(Link { frame, address })
}

fn is_after_call(memory: &mut Memory, address: usize) -> bool {
    // FF /2, with a form of the operand that takes as many bytes.
    let mut is_indirect = |bytes: usize| {
        memory.byte(address - bytes) == Some(0xff)
            && memory.byte(address - bytes + 1).is_some_and(|form| form >> 3 & 7 == 2)
    };
    [2, 3, 4, 6, 7].into_iter().any(&mut is_indirect)
        || called_before(memory, address).is_some_and(symbol::is_in_object)
}

/// The function that is called right before an address, if it is named in the instruction.
pub(crate) fn called_before(memory: &mut Memory, address: usize) -> Option<usize> {
    if memory.byte(address - 5)? != 0xe8 {
        return None;
    }
    let mut distance = [0; 4];
    for (index, byte) in distance.iter_mut().enumerate() {
        *byte = memory.byte(address - 4 + index)?;
    }
    Some(address.wrapping_add_signed(i32::from_le_bytes(distance) as isize))
}

impl fmt::Display for Stack {
    /// The end of a sentence about the thread; nothing for an empty stack.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.used == 0 {
            return Ok(());
        }
        f.write_str("; it sleeps in ")?;
        symbol::write_all(self.addresses[..self.used].iter().copied(), f)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../../tests/unit/sleeper.rs"]
mod tests;
