//! Makes a process look for requests that takes no slow path, since it frees as much as it
//! allocates.
//!
//! Its page says where the limit of sizes is that the fast path of `malloc` serves. With 0 there
//! the next call takes the slow path, which restores the limit and answers. The process may have
//! any address in its page, which is one of its own memory: it is written to only where such a
//! limit is. A look at memory may take for ever, so a thread does it, which is left behind then.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use super::apart;
use super::process::Process;

/// How long it may take.
const LIMIT: Duration = Duration::from_millis(100);
/// Above any limit of a fast path.
const BYTES_MAX: u64 = 1 << 20;

/// The memory of a process, if the caller may write to it: of that one, whatever gets its number.
pub(super) fn memory(process: &Process) -> Option<Arc<File>> {
    let path = process.path("mem");
    let opened = apart::within(LIMIT, || File::options().read(true).write(true).open(path).ok());
    opened.flatten().map(Arc::new)
}

/// Closes the fast path of the process whose memory it is, for a moment.
pub(super) fn wake(memory: &Arc<File>, closing_word: u64) {
    let memory = Arc::clone(memory);
    // Where it fails the process is silent, which is reported.
    let _ = apart::within(LIMIT, move || {
        let mut word = [0; size_of::<u64>()];
        memory.read_exact_at(&mut word, closing_word).ok()?;
        let is_limit = (1..=BYTES_MAX).contains(&u64::from_ne_bytes(word));
        is_limit.then(|| memory.write_all_at(&[0; size_of::<u64>()], closing_word).ok()).flatten()
    });
}
