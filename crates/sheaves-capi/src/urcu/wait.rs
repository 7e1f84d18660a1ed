//! Waiting for readers, and polling.

use core::ffi::c_int;

use sheaves_rcu::Cookie;
use sheaves_sys::report;

use super::qsbr;

/// `struct urcu_gp_poll_state`: an `unsigned long`, 64 bits here.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct GpPollState {
    grace_period_id: u64,
}

const _: () = assert!(size_of::<core::ffi::c_ulong>() == size_of::<GpPollState>());

exports! {
    /// `synchronize_rcu`. Aborts the process inside a read section: the interface cannot return an
    /// error, and returning early would let the caller free what readers use.
    sheaves_urcu_synchronize_rcu() = if qsbr::offline(sheaves_rcu::synchronize).is_err() {
        report::die(format_args!("urcu: synchronize_rcu inside a read section would deadlock"));
    };
    /// `rcu_read_ongoing`.
    sheaves_urcu_read_ongoing() -> c_int = c_int::from(sheaves_rcu::is_reading());
    /// `start_poll_synchronize_rcu`.
    sheaves_urcu_start_poll_synchronize_rcu() -> GpPollState =
        GpPollState { grace_period_id: Cookie::start_poll().to_bits() };
    /// `poll_state_synchronize_rcu`.
    sheaves_urcu_poll_state_synchronize_rcu(state: GpPollState) -> bool =
        Cookie::from_bits(state.grace_period_id).poll();
    /// For functions that have nothing to do in this library: registering, initialising.
    sheaves_urcu_nothing() = ();
}
