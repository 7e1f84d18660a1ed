//! SRCU domains: their read sections may sleep, be sent to other threads, and last long.
//!
//! ```text
//! reader                       grace period
//! index                        0  begin
//! entered[index] += 1          1  drain the index that is not current
//! (section)                    2  flip the current index
//! left[index] += 1             3  drain the one that was current
//!                              4  complete
//! drain(i): left = sum of left[i];  membarrier;  until left = sum of entered[i]
//! ```
//!
//! Each slot has its own counts, which change by restartable sequences: no registration, no atomic
//! instruction. A section may end in another slot than it began in, because only sums count.
//!
//! Proof. The updater unlinks an object before the membarrier of step 1. Take any section, and the
//! point P at which that membarrier made its thread pass a fence.
//!
//! - If the section reads after P, it does not find the old object.
//! - If it has read before P, it incremented `entered` before P: at the current index, for which
//!   step 3 waits, or, if it read the index before the last flip, at the other one, for which step
//!   1 waits.
//!
//! A drain sums `left` before its membarrier and `entered` after it. So a section that is in the
//! first sum is in the second, and equal sums mean that all sections that were entered have been
//! left. The flip sends later sections to the other index, so that step 3 terminates.

use core::cell::UnsafeCell;
use core::fmt;
use core::mem::{align_of, offset_of};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};

use sheaves_percpu::memory::Error;
use sheaves_percpu::{Access, CellRef, PerCpu, SlotCell, Zeroed, field};
use sheaves_sys::lock::Word;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, fork, futex, probe, report, thread};

use super::backoff::Backoff;
use super::period::{self, Futex, Lead};
use super::stall;
use crate::heads::Calls;
use crate::protocol::generation::Generations;
use crate::reader::mode::{DOMAINS, FENCES, FORK, FenceMode, heavy_fence, mode};

#[repr(C)]
struct Pair {
    entered: SlotCell<u64>,
    left: SlotCell<u64>,
}

/// A slot's counts. An index is the offset of its pair in each row: readers compute nothing.
#[repr(C, align(32))]
struct Counts {
    first: Pair,
    second: Pair,
}

/// By this bit the two indexes of a domain differ: the second's has it.
const SECOND: usize = offset_of!(Counts, second);
const _: () = assert!(SECOND.is_power_of_two() && align_of::<Counts>() > SECOND);

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// In a guard's state only: the section was not counted.
const UNCOUNTED: u32 = 2;
/// Rounds in which a drain spins before it sleeps.
const SPINS: u32 = 200;
/// Attempts of a thread that does not wait.
const POLLS: u32 = 64;

/// A domain: read sections, and grace periods that wait for these sections only.
///
/// A guard may be held across an `.await`, and be dropped in another thread. A section costs two
/// restartable sequences, and a domain 32 bytes in each slot.
///
/// ```
/// # mod sheaves { pub use sheaves_percpu as percpu; pub use sheaves_rcu as rcu; }
/// use sheaves::rcu::Srcu;
///
/// let domain = Srcu::new()?;
/// let guard = domain.read();
/// // The section ends on another thread.
/// std::thread::scope(|scope| {
///     scope.spawn(|| drop(guard));
/// });
/// domain.synchronize();
/// # Ok::<(), sheaves::percpu::memory::Error>(())
/// ```
///
/// In the child of a fork all sections are over, those of the forking thread too.
///
/// | state | written by | meaning |
/// |---|---|---|
/// | `counts` | readers, by restartable sequences | how many sections were entered and left |
/// | `index` | the leader | the index at which new sections count |
/// | `state` | first reader or waiter after a fork | forks that the counts include |
/// | `writing_off` | the same | held while it writes off the sections of other processes |
/// | `has_flipped` | the leader | steps 1 and 2 are done for the grace period that is under way |
/// | `since_ns`, `left` | the leader | when step 1 or 3 has summed `left`, 0 for not yet; the sum |
/// | `reported` | the leader | the last grace period whose stall was reported |
pub struct Srcu {
    counts: PerCpu<Counts>,
    access: Access,
    index: AtomicUsize,
    state: AtomicU32,
    writing_off: Word,
    generations: Generations,
    has_flipped: AtomicBool,
    left: AtomicU64,
    since_ns: AtomicU64,
    reported: AtomicU64,
    /// Under the lock of `defer/work/domains.rs`.
    pub(crate) calls: UnsafeCell<Calls<Srcu>>,
}

// SAFETY: `calls` is used under that lock; all else may be shared.
unsafe impl Sync for Srcu {}
// SAFETY: a domain with callbacks is borrowed for ever, so it does not move.
unsafe impl Send for Srcu {}

/// A read section of a domain. It ends when the guard is dropped, in any thread.
#[derive(Debug)]
#[must_use = "the read section ends when the guard is dropped"]
pub struct SrcuGuard<'domain> {
    /// Where the begin of the section was counted.
    entered: CellRef<'domain, u64>,
    access: Access,
    /// [`DOMAINS`] when the section began, or [`UNCOUNTED`].
    state: u32,
}

impl Srcu {
    /// A domain without sections.
    ///
    /// # Errors
    /// When per-CPU memory is out, see [`Error`].
    pub fn new() -> Result<Srcu, Error> {
        if mode() == FenceMode::Fences {
            // Relaxed, here and below: the readers of this domain read it after this.
            DOMAINS.fetch_or(FENCES, Ordering::Relaxed);
        }
        let counts = PerCpu::zeroed()?;
        Ok(Srcu {
            index: AtomicUsize::new(counts.cell(field!(Counts, first.entered)).offset()),
            counts,
            access: Access::get(),
            state: AtomicU32::new(DOMAINS.load(Ordering::Relaxed) & !FENCES),
            writing_off: Word::new(),
            generations: Generations::new(),
            has_flipped: AtomicBool::new(false),
            left: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
            reported: AtomicU64::new(0),
            calls: UnsafeCell::new(Calls::new()),
        })
    }

    /// Begins a section. Async-signal-safe. Never blocks, but in the child of a fork while another
    /// thread uses the domain for the first time there. A section that a handler begins while its
    /// own thread does that protects nothing after the handler.
    #[inline]
    pub fn read(&self) -> SrcuGuard<'_> {
        // Relaxed, here and below: any index is correct, and the membarrier orders the section.
        let state = self.state.load(Ordering::Relaxed);
        if state != DOMAINS.load(Ordering::Relaxed) {
            let (index, state) = self.read_slow();
            return self.guard(index, state);
        }
        let (entered, access) = (self.entered(self.index.load(Ordering::Relaxed)), self.access);
        entered.increment_by(access);
        // SeqCst, for the compiler only: the section stays after the count. It pairs with the
        // membarrier of the grace period. [R3]
        compiler_fence(Ordering::SeqCst);
        SrcuGuard { entered, access, state }
    }

    fn guard(&self, index: usize, state: u32) -> SrcuGuard<'_> {
        SrcuGuard { entered: self.entered(index), access: self.access, state }
    }

    /// After a fork, or where membarrier is refused. Returns index and state: in registers.
    #[cold]
    #[inline(never)]
    fn read_slow(&self) -> (usize, u32) {
        let is_counted = self.write_off_other_processes();
        // Relaxed, both: as in `read`; the state changes in forks only.
        let state = if is_counted { DOMAINS.load(Ordering::Relaxed) } else { UNCOUNTED };
        let index = self.index.load(Ordering::Relaxed);
        self.entered(index).add(is_counted.into());
        // SeqCst pairs with the heavy fence of the grace period. [R2]
        fence(Ordering::SeqCst);
        (index, state)
    }

    /// Waits until all sections of this domain that began before this call have ended.
    ///
    /// Sleeps; not for signal handlers. Inside a section of this domain it never returns. That
    /// cannot be detected, as sections belong to no thread: it is reported like any long section.
    pub fn synchronize(&self) {
        fork::run_pending_handlers();
        self.write_off_other_processes();
        let number = self.generations.next();
        // In each round: a handler that interrupts this may fork.
        let write_off = || _ = self.write_off_other_processes();
        period::wait_on(&self.generations, number, write_off, || {
            let (mut backoff, mut stall) = (Backoff::new(clock::fine_ns()), None);
            self.lead_until(number, || {
                write_off();
                // Relaxed: only leaders write it, and pass it on with the lead.
                let begun = self.generations.begun();
                let is_new = || self.reported.swap(begun, Ordering::Relaxed) != begun;
                let check = |age_ns| stall::check_domain(age_ns, is_new);
                stall = backoff.once(SPINS, check, thread::sleep_ns);
                stall.is_none()
            });
            stall
        });
    }

    /// Advances the grace periods up to one as far as that is possible without waiting, if no other
    /// thread leads. Returns the last one that is over.
    pub(crate) fn poll(&self, number: u64) -> u64 {
        self.write_off_other_processes();
        if !self.generations.is_complete(number)
            && let Some(_lead) = Lead::take(&self.generations)
        {
            let mut polls = 0..POLLS;
            self.lead_until(number, || polls.next().is_some());
        }
        self.generations.completed()
    }

    /// The number of the next grace period, and of the last one that is over.
    pub(crate) fn numbers(&self) -> (u64, u64) {
        let number = self.generations.next();
        (number, self.generations.completed())
    }

    /// Leads until a grace period is over, or `wait`, which is called where a section is in the
    /// way, returns false. Another leader goes on where this one has stopped.
    fn lead_until(&self, number: u64, mut wait: impl FnMut() -> bool) {
        let domain = (&raw const *self).addr();
        while !self.generations.is_complete(number) {
            let led = self.generations.under_way().unwrap_or_else(|| {
                let number = self.generations.begin();
                probe::grace_period_begin(number as usize, domain);
                number
            });
            if !self.is_drained() {
                if !wait() {
                    return;
                }
                continue;
            }
            // Relaxed, all: only leaders write these, and readers may read an old index.
            let has_flipped = self.has_flipped.load(Ordering::Relaxed);
            if !has_flipped {
                self.index.store(self.index.load(Ordering::Relaxed) ^ SECOND, Ordering::Relaxed);
            }
            self.has_flipped.store(!has_flipped, Ordering::Relaxed);
            if has_flipped {
                probe::grace_period_end(led as usize, domain);
                self.generations.complete(led, &Futex);
            }
        }
    }

    /// One attempt to drain the index that is not current: true if every section that was entered
    /// there has been left. For the leader.
    fn is_drained(&self) -> bool {
        // Relaxed, all: only leaders write these, and pass them on with the lead.
        let other = self.index.load(Ordering::Relaxed) ^ SECOND;
        let open = |left: u64| self.entered(other).sum().wrapping_sub(left).cast_signed();
        if self.since_ns.load(Ordering::Relaxed) == 0 {
            let left = left(self.entered(other)).sum();
            // Only equal sums are worth a fence, and those of an error.
            if open(left) > 0 {
                return false;
            }
            self.left.store(left, Ordering::Relaxed);
            self.since_ns.store(clock::fine_ns(), Ordering::Relaxed);
        }
        // Pairs with the Release in the guard's `drop`. [R5]
        if !heavy_fence(self.since_ns.load(Ordering::Relaxed), Reach::Interrupts) {
            return false;
        }
        self.since_ns.store(0, Ordering::Relaxed);
        let open = open(self.left.load(Ordering::Relaxed));
        // A begin is counted before its end, and summed after it.
        if open < 0 {
            report::die(format_args!("srcu: a section was ended twice"));
        }
        open == 0
    }

    #[inline(always)]
    fn entered(&self, index: usize) -> CellRef<'_, u64> {
        // SAFETY: an index of this domain, whose counts are borrowed.
        unsafe { CellRef::at(index) }
    }

    fn indexes(&self) -> [usize; 2] {
        let first = self.counts.cell(field!(Counts, first.entered)).offset();
        [first, first | SECOND]
    }

    /// In the child of a fork, once: ends the parent's sections. Waiters start again, and so does
    /// the grace period, unless its leader is in the child. False in a handler that has interrupted
    /// this in its own thread: no grace period ends before the handler, as each waits for this.
    fn write_off_other_processes(&self) -> bool {
        // Relaxed: counts forks, which happened before.
        let wanted = DOMAINS.load(Ordering::Relaxed) & !FENCES;
        // Acquire pairs with the Release in `write_off`.
        if self.state.load(Ordering::Acquire) == wanted {
            return true;
        }
        if self.writing_off.is_owned_here() {
            return false;
        }
        self.writing_off.acquire(futex::wait);
        // Relaxed: written by holders of the word.
        let before = self.state.load(Ordering::Relaxed);
        if before != wanted {
            self.write_off(before, wanted);
        }
        // SAFETY: taken above.
        unsafe { self.writing_off.release() };
        true
    }

    #[cold]
    fn write_off(&self, before: u32, wanted: u32) {
        for index in self.indexes() {
            let open = self.entered(index).sum().wrapping_sub(left(self.entered(index)).sum());
            left(self.entered(index)).add(open);
        }
        // A leader that a handler has interrupted, which has forked, goes on.
        let (forks, mask) = ((before / FORK) as usize, (u32::MAX / FORK) as usize);
        if fork::is_gone(self.generations.leader(), forks, mask) {
            self.generations.restart_in_child();
            // Relaxed, both: published below. The sum is the parent's; it begins anew.
            self.since_ns.store(0, Ordering::Relaxed);
            self.has_flipped.store(false, Ordering::Relaxed);
        }
        // Release pairs with the Acquire in `write_off_other_processes`: the new counts.
        self.state.store(wanted, Ordering::Release);
    }
}

/// The count of ends beside a count of begins.
#[inline(always)]
fn left(entered: CellRef<'_, u64>) -> CellRef<'_, u64> {
    // SAFETY: each `entered` lies in a pair, beside its `left`.
    unsafe { CellRef::at(entered.offset() + offset_of!(Pair, left)) }
}

impl<'domain> SrcuGuard<'domain> {
    /// The section as a number for [`SrcuGuard::from_raw`], for bindings of other languages.
    #[inline]
    #[must_use = "the section does not end without it"]
    pub fn into_raw(self) -> u64 {
        let guard = core::mem::ManuallyDrop::new(self);
        u64::from(guard.state) << 32 | (guard.entered.offset() & SECOND) as u64
    }

    /// The guard of a section that [`SrcuGuard::into_raw`] turned into a number.
    ///
    /// # Safety
    /// `section` is from this domain, and no guard was made of it before.
    #[inline]
    pub unsafe fn from_raw(domain: &'domain Srcu, section: u64) -> SrcuGuard<'domain> {
        let [first, _] = domain.indexes();
        domain.guard(first | section as usize & SECOND, (section >> 32) as u32)
    }
}

impl Drop for SrcuGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the heavy fence of a drain that has summed this count before it: the
        // section is over. For CPUs where the portable engine counts without ordering; on x86-64
        // it only constrains the compiler. [R5]
        fence(Ordering::Release);
        // Relaxed: counts forks. A section of the parent is written off in the child.
        if self.state == DOMAINS.load(Ordering::Relaxed) {
            left(self.entered).increment_by(self.access);
        }
    }
}

impl fmt::Debug for Srcu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srcu").field("grace_periods", &self.generations.completed()).finish()
    }
}
