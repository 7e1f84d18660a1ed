//! Why a process does not answer, in words.

use core::time::Duration;
use std::io;

use rustix::io::Errno;
use sheaves_control::client::Failure;

use super::process::Process;
use crate::refusal::Refusal;

/// A limit, for a reader.
pub(super) fn time(limit: Duration) -> String {
    match limit.as_secs() {
        0 => format!("{} ms", limit.as_millis()),
        seconds => format!("{seconds} s"),
    }
}

/// Why a process has no control page of its own.
pub(super) fn without_page(process: &Process, limit: Duration) -> Refusal {
    if process.has_ended() {
        return refuse(process, Failure::Gone, limit);
    }
    if let Some(word) = process.refuses_by() {
        return Refusal::unavailable(format!("{process} runs with SHEAVES_CONTROL={word}"));
    }
    if process.is_on_sheaves() {
        return Refusal::try_again(format!(
            "{process} runs on Sheaves, but has closed its control page: ask as root"
        ));
    }
    Refusal::unavailable(format!(
        "{process} has no control page: it does not run on Sheaves (start it by sheaves run)"
    ))
}

/// What to say of a failure, after this limit.
pub(super) fn refuse(process: &Process, failure: Failure, limit: Duration) -> Refusal {
    match failure {
        Failure::Gone => Refusal::unavailable(format!("{process} has ended")),
        Failure::Silent => Refusal::try_again(format!(
            "{process} has not answered for {}: it answers when it allocates more; not in a \
             sandbox, and not while a deferred call runs for long",
            time(limit)
        )),
        Failure::Version(found) => Refusal::protocol(format!(
            "{process} has a control page of version {found}, which this command does not know: \
             use the command of the same release"
        )),
        Failure::Refused(errno) if errno == Errno::OPNOTSUPP.raw_os_error() => {
            Refusal::protocol(format!(
                "{process} is hardened or in debug mode, where no block is guarded: its frees \
                 are checked by other means"
            ))
        }
        Failure::Refused(errno) => {
            let error = io::Error::from_raw_os_error(errno);
            Refusal::protocol(format!("{process} cannot answer: {error}"))
        }
        Failure::Damaged => Refusal::protocol(format!(
            "the control page of {process} is damaged: something has written over it"
        )),
    }
}
