//! Stacks in reports: a line for each function. Async-signal-safe.

use core::cell::RefCell;
use core::fmt;

use crate::fault::Access;
use crate::report::report;
use crate::{errno, sleeper, stack, symbol};

pub use crate::reports::peek::Memory;

impl Memory {
    /// Stores the instruction of an access that has failed, and the return addresses of its
    /// callers, by frame pointers. Returns their number. Reads no memory that may be inaccessible.
    pub fn follow(&mut self, access: &Access, out: &mut [usize]) -> usize {
        self.forget();
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
            let read = |word| Some(self.word(word)? as usize);
            first + stack::follow(access.stack, access.frame, usize::MAX, &mut out[first..], read)
        })
    }

    /// Where a function without a frame returns to: its stack pointer leads to an address after a
    /// call of a function that begins shortly before the instruction.
    fn caller_of_leaf(&mut self, access: &Access) -> Option<usize> {
        const FUNCTION_BYTES: usize = 4096;
        let caller = self.word(access.stack)? as usize;
        let caller = Some(caller).filter(|address| *address > FUNCTION_BYTES)?;
        let function = sleeper::called_before(self, caller)?;
        access.counter.checked_sub(function).filter(|at| *at < FUNCTION_BYTES).map(|_| caller)
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
        self.forget();
        let memory = RefCell::new(self);
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
