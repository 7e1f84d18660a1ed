//! What a process answers.

use sheaves_heap::report::{self, Flush, Format};
use sheaves_heap::{checking, guard, profile};
use sheaves_rcu::Cookie;
use sheaves_rcu::internal::is_reclaimer;
use sheaves_sys::errno::{EINVAL, ENOMEM, EOPNOTSUPP};

use crate::layout::{
    BEGIN_GRACE_PERIOD, GUARD_OFF, GUARD_ON, PROFILE_DUMP, PROFILE_START, PROFILE_STOP, RCU,
    STATISTICS, STATISTICS_TEXT,
};

/// Writes the answer to a command. Returns its status.
pub(crate) fn answer(command: u32, argument: u64, flush: &mut Flush<'_>) -> i32 {
    match command {
        STATISTICS => report::write(Format::Json, flush),
        STATISTICS_TEXT => report::write(Format::Text, flush),
        RCU => report::rcu::write(flush),
        PROFILE_START => start_profile(argument),
        PROFILE_STOP => {
            profile::stop();
            0
        }
        PROFILE_DUMP => profile::write(flush),
        GUARD_ON => start_guard(argument),
        GUARD_OFF => {
            guard::off();
            0
        }
        _ => EINVAL,
    }
}

fn start_profile(rate: u64) -> i32 {
    let rates = profile::RATE_BYTES_MIN as u64..=profile::RATE_BYTES_MAX as u64;
    match rate {
        _ if !rates.contains(&rate) => EINVAL,
        _ if profile::start_for_tool(rate as usize) => 0,
        _ => ENOMEM,
    }
}

fn start_guard(one_in: u64) -> i32 {
    match one_in {
        0 => EINVAL,
        _ if one_in > guard::ONE_IN_MAX as u64 => EINVAL,
        _ if checking::is_hardened() => EOPNOTSUPP,
        _ if guard::on_for_tool(one_in as usize) => 0,
        _ => ENOMEM,
    }
}

/// What follows an answer, without a lock.
pub(crate) fn after(command: u32, argument: u64) {
    if command == RCU && argument & BEGIN_GRACE_PERIOD != 0 {
        let _cookie = Cookie::start_poll();
    }
    // Any other thread may be in a slow path, and libc allocates for a new thread.
    if (command == PROFILE_START || command == GUARD_ON) && is_reclaimer() {
        profile::find_unwinder_apart();
    }
}
