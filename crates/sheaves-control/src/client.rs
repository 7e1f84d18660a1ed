//! The side of a tool: asks a process by its control page, which the tool has opened.
//!
//! Nothing that is read from the page is trusted: the process, or any other of its user, may write
//! anything into it at any time. The tool has the lock of `flock(2)` on the file meanwhile.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::Ordering;

use sheaves_sys::{clock, futex, map, memfd};

use crate::layout::{
    ANSWER_BYTES_MAX, ANSWERED, ANSWERING, FILE_BYTES, IDLE, MAGIC, Page, REQUESTED, VERSION,
};

/// Why a process does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The file is not a control page, or something has written over it.
    Damaged,
    /// The page has this other version.
    Version(u32),
    /// The process has ended.
    Gone,
    /// It did not answer in time.
    Silent,
    /// It refuses the request, with a value of `errno`.
    Refused(i32),
}

/// A control page that this process, a tool, has mapped.
#[derive(Debug)]
pub struct Client(usize);

impl Client {
    /// Maps the control page that `descriptor` is, open for reading and writing.
    ///
    /// # Errors
    /// It is no control page of this version.
    pub fn attach(descriptor: i32) -> Result<Client, Failure> {
        // Its size cannot change, so that the page can be read.
        if memfd::sealed_bytes(descriptor) != Some(FILE_BYTES) {
            return Err(Failure::Damaged);
        }
        // SAFETY: nothing is replaced.
        let page = unsafe { map::shared(0, size_of::<Page>(), descriptor) };
        let client = Client(page.ok_or(Failure::Damaged)?);
        // Acquire pairs with the Release in `page::make`. [Q4]
        if client.page().magic.load(Ordering::Acquire) != MAGIC {
            return Err(Failure::Damaged);
        }
        // Relaxed: written before the magic.
        match client.page().version.load(Ordering::Relaxed) {
            VERSION => Ok(client),
            other => Err(Failure::Version(other)),
        }
    }

    /// An address in the object that answers, as the process has it loaded; 0 if unknown.
    pub fn object(&self) -> u64 {
        // Relaxed: written before the magic.
        self.page().object.load(Ordering::Relaxed)
    }

    /// The address of [`Page::closing_words`]; 0 if unknown.
    pub fn closing_words(&self) -> u64 {
        // Relaxed: written before the magic.
        self.page().closing_words.load(Ordering::Relaxed)
    }

    /// Asks a process, by its own number in its own namespace, and waits for the answer. Returns
    /// the number of its bytes, which the file has from [`crate::layout::ANSWER_AT`] on. Meanwhile,
    /// ten times a second, `is_alive` says whether to go on.
    ///
    /// # Errors
    /// There is no answer.
    pub fn ask(
        &mut self,
        process: u32,
        command: u32,
        argument: u64,
        milliseconds: u64,
        is_alive: &mut dyn FnMut() -> bool,
    ) -> Result<usize, Failure> {
        let page = self.page();
        let state = &page.request.state;
        let end_ms = clock::coarse_ms() + milliseconds;
        // Relaxed, both: what a tool that has ended left behind, unless the process takes it now.
        let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
        // Another process that was asked may have been killed while it answered. Relaxed: a number.
        let is_of_other = page.request.process.load(Ordering::Relaxed) != process;
        let left_end_ms = end_ms - if is_of_other { milliseconds / 2 } else { 0 };
        loop {
            let left = match self.wait(left_end_ms, is_alive, &mut |state| state != ANSWERING) {
                Err(Failure::Silent) if is_of_other => ANSWERING,
                left => left?,
            };
            if state.compare_exchange(left, IDLE, done, failed).is_ok() {
                break;
            }
            // Something may change the state all the time.
            if clock::coarse_ms() >= end_ms {
                return Err(Failure::Silent);
            }
        }
        // Relaxed, all: the Release below.
        page.request.process.store(process, Ordering::Relaxed);
        page.command.store(command, Ordering::Relaxed);
        page.argument.store(argument, Ordering::Relaxed);
        // Release pairs with the Acquire by which the process takes the request. [Q1]
        state.store(REQUESTED, Ordering::Release);
        futex::wake_all_shared(state);
        let mut is_over = |state| state != REQUESTED && state != ANSWERING;
        let waited = self.wait(end_ms, is_alive, &mut is_over);
        if waited == Err(Failure::Silent) {
            // Relaxed, both: the process finds nothing to do, unless it answers at this moment.
            let _ = state.compare_exchange(REQUESTED, IDLE, done, failed);
        }
        if waited? != ANSWERED {
            return Err(Failure::Damaged);
        }
        // Relaxed, here and below: the Acquire in `wait`.
        let status = page.status.load(Ordering::Relaxed).cast_signed();
        let bytes = page.answer_bytes.load(Ordering::Relaxed);
        state.store(IDLE, Ordering::Relaxed);
        match usize::try_from(bytes) {
            _ if status != 0 => Err(Failure::Refused(status)),
            Ok(bytes) if bytes <= ANSWER_BYTES_MAX => Ok(bytes),
            _ => Err(Failure::Damaged),
        }
    }

    /// Waits until `is_over` is true of the state, and returns that.
    fn wait(
        &self,
        end_ms: u64,
        is_alive: &mut dyn FnMut() -> bool,
        is_over: &mut dyn FnMut(u32) -> bool,
    ) -> Result<u32, Failure> {
        const SLICE_NS: u64 = 100_000_000;
        let word = &self.page().request.state;
        loop {
            // Acquire pairs with the Release by which the process stores that it has answered. [Q3]
            let state = word.load(Ordering::Acquire);
            if is_over(state) {
                return Ok(state);
            }
            if !is_alive() {
                return Err(Failure::Gone);
            }
            if clock::coarse_ms() >= end_ms {
                return Err(Failure::Silent);
            }
            futex::wait_shared_for(word, state, SLICE_NS);
        }
    }

    fn page(&self) -> &'static Page {
        // SAFETY: mapped by `attach`, of a file that cannot become smaller; all of it is atomic.
        unsafe { &*with_exposed_provenance::<Page>(self.0) }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: mapped by `attach`; references to it do not outlive a method.
        unsafe { map::unmap(self.0, size_of::<Page>()) };
    }
}
