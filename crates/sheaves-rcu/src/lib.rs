//! Read-copy-update for user-space Linux programs: read sections cost a few instructions, and
//! updaters free what they have unlinked after a grace period.
//!
//! ```
//! # mod sheaves { pub use sheaves_rcu as rcu; }
//! use sheaves::rcu::{read, synchronize};
//!
//! {
//!     let _guard = read();
//! // What is reachable here stays valid until the guard is dropped.
//! }
//! // Unlink something, then wait for the readers that may still use it.
//! synchronize()?;
//! # Ok::<(), sheaves::rcu::InsideReader>(())
//! ```
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | enter a read section | [`read`] | never |
//! | keep a value that is read often and replaced as a whole | [`RcuCell`] | see [`Retired`] |
//! | hold a section across an `.await`, or end it elsewhere | [`Srcu`] | see [`Srcu::read`] |
//! | wait for a grace period | [`synchronize`], [`synchronize_expedited`] | yes |
//! | ask whether a grace period has passed | [`Cookie`] | never |
//! | wait for a grace period in an `async` function | [`Cookie::finished`] | never |
//! | free or call something after a grace period | [`mod@defer`], [`fn@defer`] | never |
//!
//! Threads need no registration. A thread of the library runs while a future waits or something is
//! deferred, and for two seconds after. Memory is mapped directly from the kernel, except the boxes
//! of [`RcuCell`] and of deferred closures. The crate `sheaves` documents the environment
//! variables.
//!
//! Whether readers fence is decided when the object is loaded; threads that read for the first time
//! in a sandbox do, too. If a seccomp filter refuses
//! membarrier later, a grace period that needs it takes 10 ms; see [`defer::before_sandbox`].
#![no_std]

// For the boxes of [`RcuCell`] and of deferred closures; nothing else here allocates.
extern crate alloc;

mod cell;
pub mod defer;
mod grace;
mod heads;
mod protocol;
mod reader;

pub use cell::retired::Retired;
pub use cell::value::{Projection, RcuCell, RcuOption};
pub use defer::{Finished, defer};
pub use grace::cookie::{Cookie, synchronize, synchronize_expedited};
pub use grace::expedite::{Expedite, end_startup, expedite};
pub use grace::period::{InsideReader, Statistics, statistics};
pub use grace::srcu::{Srcu, SrcuGuard};
pub use grace::stall;
pub use reader::fences::enter_idle;
pub use reader::guard::{Guard, raw, read};
pub use reader::section::is_reading;

/// For the other crates of this workspace, their tests and benchmarks. It may change at any time.
#[doc(hidden)]
pub mod internal {
    pub use crate::defer::work::follow::spend as spend_on_following;
    pub use crate::defer::work::layers::{LayerAbove, register, trim};
    pub use crate::defer::work::reclaimer::{is_reclaimer, reclaimer_thread};
    pub use crate::defer::work::requests::{
        arm_age, arm_keeper, leave_to_reclaimer, request_membarrier, request_sweep, wake_if_pressed,
    };
    pub use crate::grace::cookie::{poll_quietly, start_quietly};
    pub use crate::grace::expedite::end_expedite;
    pub use crate::grace::survey::{Reading, Section, Survey, readers, section, survey};
    pub use crate::heads::is_queued;

    /// What is sealed by the layers above, and what has to be done about it.
    pub mod pressure {
        pub use crate::defer::store::pressure::{
            Pressure, note_reclaimed, note_sealed, pressure as now,
        };
    }
    /// Queues of sealed sheaves, and what is done where memory for a sheaf is out.
    pub mod queue {
        pub use crate::defer::store::emergency::free_without_memory;
        pub use crate::defer::store::queue::{Open, Queue, STATE_ENTRIES, Sealed};
    }
    /// The thread that returns unused memory.
    pub mod keeper {
        pub use crate::defer::work::keeper::{
            decay_ms, is_active, is_armed, is_armed_fenced, is_overdue, period_ms, tick_here,
        };
    }
    /// Requests for memory that fail, for tests.
    #[cfg(feature = "faults")]
    pub mod faults {
        pub use crate::defer::faults::{FAULTS, Faults};
    }
}
