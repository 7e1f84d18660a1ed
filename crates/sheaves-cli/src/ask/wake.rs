//! Makes a process look for requests that takes no slow path, since it frees as much as it
//! allocates.
//!
//! Its page says where the limits of sizes are that the fast paths serve: that of `malloc`, and
//! that of callers which know a layout, which may be closed. With 0 there the next call takes the
//! slow path, which restores them and answers. The process may have any address in its page, which
//! is one of its own memory: it is written to only where such limits are. A look at memory may take
//! for ever, so a thread does it, which is left behind then.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use super::apart;
use super::process::{Process, is_alive};

/// How long it may take.
const LIMIT: Duration = Duration::from_millis(100);
/// Above any limit of a fast path.
const BYTES_MAX: u64 = 1 << 20;

/// Closes the fast path of a process for a moment, if the caller may write to its memory.
pub(super) fn wake(process: &Process, pidfd: &Arc<OwnedFd>, closing_words: u64) {
    let (path, pidfd) = (process.path("mem"), Arc::clone(pidfd));
    // Where it fails the process is silent, which is reported.
    let _ = apart::within(LIMIT, move || {
        let memory = File::options().read(true).write(true).open(path).ok()?;
        let mut words = [[0; size_of::<u64>()]; 2];
        memory.read_exact_at(words.as_flattened_mut(), closing_words).ok()?;
        let [of_malloc, of_layouts] = words.map(u64::from_ne_bytes);
        let are_limits = (1..=BYTES_MAX).contains(&of_malloc) && of_layouts <= BYTES_MAX;
        // What is open is the memory of this process, if it is alive now, whatever gets its number.
        let may_write = are_limits && is_alive(&pidfd);
        may_write
            .then(|| memory.write_all_at(&[0; 2 * size_of::<u64>()], closing_words).ok())
            .flatten()
    });
}
