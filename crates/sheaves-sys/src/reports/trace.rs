//! Stacks in reports: a line for each function. Async-signal-safe.

use core::cell::RefCell;
use core::fmt;

use crate::fault::Access;
use crate::report::report;
use crate::reports::peek::Memory;
use crate::{errno, sleeper, symbol};

/// Reads stacks and names. About 1 KiB, so that a signal handler keeps it in a static.
pub struct Tracer(Memory);

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tracer")
    }
}

impl Tracer {
    /// A tracer.
    #[expect(clippy::new_without_default, reason = "one constructor is enough")]
    #[must_use]
    pub const fn new() -> Tracer {
        Tracer(Memory::new())
    }

    /// Stores the instruction of an access that has failed, and the return addresses of its
    /// callers, by frame pointers. Returns their number. Reads no memory that may be inaccessible.
    pub fn follow(&mut self, access: &Access, out: &mut [usize]) -> usize {
        self.0.forget();
        if access.counter == 0 || out.is_empty() {
            return 0;
        }
        out[0] = access.counter;
        errno::preserve(|| {
            let mut first = 1;
            if let Some(caller) = self.caller_of_leaf(access)
                && let Some(place) = out.get_mut(first)
            {
                *place = caller;
                first += 1;
            }
            let (mut lowest, mut frame) = (access.stack, access.frame);
            for (index, place) in out.iter_mut().enumerate().skip(first) {
                let is_frame = frame >= lowest && frame.is_multiple_of(8);
                let caller = if is_frame { self.word(frame + 8) } else { 0 };
                if caller == 0 {
                    return index;
                }
                *place = caller;
                (lowest, frame) = (frame + 1, self.word(frame));
            }
            out.len()
        })
    }

    /// Where a function without a frame returns to: its stack pointer leads to an address after a
    /// call of a function that begins shortly before the instruction.
    fn caller_of_leaf(&mut self, access: &Access) -> Option<usize> {
        const FUNCTION_BYTES: usize = 4096;
        let caller = Some(self.word(access.stack)).filter(|address| *address > FUNCTION_BYTES)?;
        let function = sleeper::called_before(&mut self.0, caller)?;
        access.counter.checked_sub(function).filter(|at| *at < FUNCTION_BYTES).map(|_| caller)
    }

    fn word(&mut self, address: usize) -> usize {
        self.0.word(address).unwrap_or(0) as usize
    }

    /// Prints a line for each address, `prefix` in front. The first one is that of an instruction,
    /// if `is_access`; the others are return addresses. What is in no object at the end is left
    /// out: a function without a frame pointer has led there.
    pub fn report(
        &mut self,
        prefix: &str,
        frames: impl Iterator<Item = usize> + Clone,
        is_access: bool,
    ) {
        self.0.forget();
        let memory = RefCell::new(&mut self.0);
        errno::preserve(|| {
            let is_known = |(index, frame)| index == 0 || symbol::is_in_object(frame);
            let known = frames.clone().enumerate().filter(|frame| is_known(*frame)).last();
            let count = known.map_or(0, |(index, _)| index + 1);
            for (index, frame) in frames.take(count).enumerate() {
                let is_return = index != 0 || !is_access;
                // Inside the call: the address after it may be in the next function.
                let inside = frame.saturating_sub(usize::from(is_return));
                let name = fmt::from_fn(|f| symbol::write(&mut memory.borrow_mut(), inside, f));
                report(format_args!("{prefix}#{index} {frame:#x} {name}"));
            }
        });
    }
}
