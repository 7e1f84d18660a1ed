//! Domains of their own, whose sections may sleep, be sent to other threads, and last.
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
//! Each slot has counts of its own, which change by transactions: no registration, no atomic
//! instruction, and a cost that does not depend on the number of threads. A section may be left on
//! another slot than it was entered on, because only sums count.
//!
//! Why that suffices. What the updater has unlinked is unlinked before the membarrier of step 1.
//! A section that reads after the point P at which that membarrier made its thread pass a fence
//! does not have the old thing. One that has read before P has counted itself in before P: at the
//! index that is not current, if it took the index before an earlier flip, then step 1 waits for
//! it; or at the current one, then step 3 does. In a drain the sum of those who left is taken
//! before the membarrier and that of those who entered after it, so whoever is in the first sum
//! is in the second, and equal sums mean that all who had entered have left. The flip is for
//! those who come later: they count elsewhere, so that step 3 comes to an end.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence, fence};

use sheaves_percpu::memory::Error;
use sheaves_percpu::{Access, CellRef, PerCpu, SlotCell, Zeroed, field};
use sheaves_sys::{clock, fork, process, thread};

use crate::generation::Generations;
use crate::grace::{self, Futex};
use crate::mode::{self, Mode, heavy_fence};
use crate::stall;

/// The counts of an index in a slot.
#[repr(C)]
struct Pair {
    entered: SlotCell<u64>,
    left: SlotCell<u64>,
}

/// A slot's counts. An index is the place of its pair, in bytes, so that nothing is to be computed.
#[repr(C, align(32))]
struct Counts {
    first: Pair,
    second: Pair,
}

/// The other index.
const SECOND: usize = core::mem::offset_of!(Counts, second);
const _: () = assert!(SECOND.is_power_of_two());

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// What sections compare their domain's state with: bit 0 says that readers fence, so that no state
/// matches; bits from 2 on count forks on the way to this process. Written in the child of a fork,
/// and when fences are chosen.
static STATE: AtomicU32 = AtomicU32::new(0);
const FENCES: u32 = 1;
const FORK: u32 = 4;
/// In a domain's state alone: sections of other processes are being written off.
const BUSY: u32 = 2;

/// Rounds of spinning, then of giving way, before whoever drains an index sleeps.
const SPINS: u32 = 200;
const YIELDS: u32 = 20;
/// Shortest and longest sleep between two looks at the counts.
const NAP_NS: u64 = 10_000;
const NAP_NS_MAX: u64 = 1_000_000;

/// A domain: read sections, and grace periods that wait for these alone.
///
/// Its guards may be held across an `.await`, be sent to other threads and dropped there. What it
/// costs: two transactions for a section, 32 bytes in each slot.
///
/// ```
/// use sheaves_rcu::Srcu;
///
/// let domain = Srcu::new()?;
/// let guard = domain.read();
/// // The section ends on another thread.
/// std::thread::scope(|scope| {
///     scope.spawn(|| drop(guard));
/// });
/// domain.synchronize();
/// # Ok::<(), sheaves_percpu::memory::Error>(())
/// ```
///
/// Sections that are open during a fork count as over in the child, whoever held them.
///
/// | state | written by | meaning |
/// |---|---|---|
/// | `counts` | readers, by transactions | how many sections were entered and left |
/// | `index` | the leader | at which of the two indexes sections count |
/// | `state` | the first reader after a fork | forks that the counts know of, or busy |
pub struct Srcu {
    counts: PerCpu<Counts>,
    access: Access,
    index: AtomicUsize,
    state: AtomicU32,
    generations: Generations,
}

/// A read section of a domain. It ends when the guard is dropped, in whatever thread.
#[must_use = "the read section ends when the guard is dropped"]
pub struct SrcuGuard<'domain> {
    /// Where the section is counted when it ends.
    left: CellRef<'domain, u64>,
    access: Access,
    /// [`STATE`] when the section began.
    state: u32,
    index: u32,
}

impl Srcu {
    /// A domain without sections.
    ///
    /// # Errors
    /// When there is no per-CPU memory, see [`Error`].
    pub fn new() -> Result<Srcu, Error> {
        if mode::mode() == Mode::Fences {
            // Relaxed: readers take it from here or from a domain that was made after it.
            STATE.fetch_or(FENCES, Ordering::Relaxed);
        }
        Ok(Srcu {
            counts: PerCpu::zeroed()?,
            access: Access::get(),
            index: AtomicUsize::new(0),
            // Relaxed: as above.
            state: AtomicU32::new(STATE.load(Ordering::Relaxed) & !FENCES),
            generations: Generations::new(),
        })
    }

    /// Begins a section. Never blocks; async-signal-safe.
    #[inline]
    pub fn read(&self) -> SrcuGuard<'_> {
        // Relaxed, here and below: which index does not matter, and what orders the section is the
        // membarrier.
        let state = self.state.load(Ordering::Relaxed);
        if state != STATE.load(Ordering::Relaxed) {
            let (index, state) = self.read_slow();
            return self.guard(index, state);
        }
        let index = self.index.load(Ordering::Relaxed);
        let (left, access) = (self.left(index), self.access);
        self.entered(index).increment_by(access);
        // SeqCst, for the compiler alone: the section stays behind the count. The membarrier of
        // the grace period pairs with it. [R3]
        compiler_fence(Ordering::SeqCst);
        SrcuGuard { left, access, state, index: index as u32 }
    }

    /// The guard of a section that is counted.
    fn guard(&self, index: usize, state: u32) -> SrcuGuard<'_> {
        SrcuGuard { left: self.left(index), access: self.access, state, index: index as u32 }
    }

    /// After a fork, or where membarrier is refused: index and state for the guard, which come in
    /// registers, so that guards need no memory.
    #[cold]
    #[inline(never)]
    fn read_slow(&self) -> (usize, u32) {
        self.write_off_other_processes();
        // Relaxed, both: as in `read`; the state changes in forks only.
        let state = STATE.load(Ordering::Relaxed);
        let index = self.index.load(Ordering::Relaxed);
        self.entered(index).add(1);
        // SeqCst pairs with the heavy fence of the grace period. [R2]
        fence(Ordering::SeqCst);
        (index, state)
    }

    /// Waits until all sections of this domain that have begun before this call are over.
    ///
    /// Whoever calls this leads the grace period if nobody does. Sleeps; not for signal handlers.
    /// Never returns inside of a section of this domain: there is no way to know whose a section
    /// is. That is reported like any section that lasts.
    pub fn synchronize(&self) {
        fork::settle();
        self.write_off_other_processes();
        let number = self.generations.next();
        grace::wait_on(&self.generations, number, || self.lead_until(number));
    }

    /// False where the heavy fence is refused to this thread: the next leader begins anew.
    fn lead_until(&self, number: u64) -> bool {
        while !self.generations.is_complete(number) {
            let led = self.generations.under_way().unwrap_or_else(|| self.generations.begin());
            let mut wait = Wait { began_ns: clock::fine_ns(), rounds: 0, is_reported: false };
            // Relaxed, both: leaders alone write it, and readers may have an old one.
            let current = self.index.load(Ordering::Relaxed);
            if !self.drain(current ^ SECOND, &mut wait) {
                return false;
            }
            self.index.store(current ^ SECOND, Ordering::Relaxed);
            if !self.drain(current, &mut wait) {
                return false;
            }
            self.generations.complete(led, &Futex);
        }
        true
    }

    /// Waits until every section that was entered at an index has been left. False where the heavy
    /// fence is refused to this thread.
    fn drain(&self, index: usize, wait: &mut Wait) -> bool {
        loop {
            let left = self.left(index).sum();
            // Pairs with the Release of who has left. [R5]
            if !heavy_fence() {
                return false;
            }
            if self.entered(index).sum() == left {
                return true;
            }
            // Looks without a fence, until it pays to look with one.
            while self.left(index).sum() != self.entered(index).sum() {
                wait.once();
            }
        }
    }

    #[inline(always)]
    fn entered(&self, index: usize) -> CellRef<'_, u64> {
        let first = self.counts.cell(field!(Counts, first.entered));
        // SAFETY: an index is 0 or that of the second pair.
        unsafe { first.behind(index) }
    }

    #[inline(always)]
    fn left(&self, index: usize) -> CellRef<'_, u64> {
        let first = self.counts.cell(field!(Counts, first.left));
        // SAFETY: as above.
        unsafe { first.behind(index) }
    }

    /// In the child of a fork, once: sections of the parent are over, nobody waits, nobody leads.
    fn write_off_other_processes(&self) {
        loop {
            // Relaxed: a count of forks, which were before this.
            let wanted = STATE.load(Ordering::Relaxed) & !FENCES;
            // Acquire pairs with the Release in `write_off`.
            let before = self.state.load(Ordering::Acquire);
            if before == wanted {
                return;
            }
            if before == wanted | BUSY {
                // A sleep, not a mere turn: the thread that is busy may be a less urgent one.
                thread::sleep_ns(NAP_NS);
            } else {
                // A handler of this very thread would wait for it for ever.
                thread::with_signals_blocked(|| self.write_off(before, wanted));
            }
        }
    }

    #[cold]
    fn write_off(&self, before: u32, wanted: u32) {
        // Relaxed, both: the store below publishes.
        let (state, busy) = (&self.state, wanted | BUSY);
        if state.compare_exchange(before, busy, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        for index in [0, SECOND] {
            let open = self.entered(index).sum().wrapping_sub(self.left(index).sum());
            self.left(index).add(open);
        }
        self.generations.restart_in_child();
        // Release pairs with the Acquire in `write_off_other_processes`: the counts are those of
        // this process.
        state.store(wanted, Ordering::Release);
    }
}

impl<'domain> SrcuGuard<'domain> {
    /// The section as a number, for faces in other languages. It ends with the guard that
    /// [`SrcuGuard::from_raw`] makes of it, in whatever thread.
    ///
    /// ```
    /// use sheaves_rcu::{Srcu, SrcuGuard};
    ///
    /// let domain = Srcu::new()?;
    /// let section = domain.read().into_raw();
    /// // SAFETY: of this domain, and ended once.
    /// drop(unsafe { SrcuGuard::from_raw(&domain, section) });
    /// domain.synchronize();
    /// # Ok::<(), sheaves_percpu::memory::Error>(())
    /// ```
    #[inline]
    #[must_use = "the section does not end without it"]
    pub fn into_raw(self) -> u64 {
        let guard = core::mem::ManuallyDrop::new(self);
        u64::from(guard.state) << 32 | u64::from(guard.index)
    }

    /// The guard of a section that [`SrcuGuard::into_raw`] has given out.
    ///
    /// # Safety
    /// `section` is of this domain, and no guard was made of it before.
    #[inline]
    pub unsafe fn from_raw(domain: &'domain Srcu, section: u64) -> SrcuGuard<'domain> {
        domain.guard(section as u32 as usize, (section >> 32) as u32)
    }
}

impl Drop for SrcuGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release pairs with the heavy fence of a drain, which has read the count before: the
        // section is over. Needed where readers fence, on processors on which the portable engine
        // counts without an order; on x86-64 it is a word to the compiler alone. [R5]
        fence(Ordering::Release);
        // Relaxed: a count of forks. A section of the parent is written off in the child.
        if self.state == STATE.load(Ordering::Relaxed) {
            self.left.increment_by(self.access);
        }
    }
}

impl fmt::Debug for Srcu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Srcu").field("grace_periods", &self.generations.completed()).finish()
    }
}

impl fmt::Debug for SrcuGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SrcuGuard").finish_non_exhaustive()
    }
}

/// How long somebody has waited for sections.
struct Wait {
    began_ns: u64,
    rounds: u32,
    is_reported: bool,
}

impl Wait {
    fn once(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < SPINS {
            core::hint::spin_loop();
        } else if self.rounds < SPINS + YIELDS {
            process::sched_yield();
        } else {
            let waited = clock::fine_ns().saturating_sub(self.began_ns);
            stall::look_at_domain(waited, &mut self.is_reported);
            thread::sleep_ns((waited / 8).clamp(NAP_NS, NAP_NS_MAX));
        }
    }
}

/// In the child of a fork: domains write off the sections of the parent.
pub(crate) fn restart_in_child(readers_fence: bool) {
    // Relaxed, both: the child has one thread.
    STATE.fetch_add(FORK, Ordering::Relaxed);
    if readers_fence {
        STATE.fetch_or(FENCES, Ordering::Relaxed);
    }
}
