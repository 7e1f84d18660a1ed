//! What a process answers.

use sheaves_heap::report::{self, Flush, Format};
use sheaves_heap::report_rcu;
use sheaves_rcu::Cookie;
use sheaves_sys::errno::EINVAL;

use crate::layout::{BEGIN_GRACE_PERIOD, RCU, STATISTICS, STATISTICS_TEXT};

/// Writes the answer to a command. Returns its status.
pub(crate) fn answer(command: u32, flush: &mut Flush<'_>) -> i32 {
    match command {
        STATISTICS => report::write(Format::Json, flush),
        STATISTICS_TEXT => report::write(Format::Text, flush),
        RCU => report_rcu::write_rcu(flush),
        _ => EINVAL,
    }
}

/// What follows an answer, without a lock.
pub(crate) fn after(command: u32, argument: u64) {
    if command == RCU && argument & BEGIN_GRACE_PERIOD != 0 {
        let _cookie = Cookie::start_poll();
    }
}
