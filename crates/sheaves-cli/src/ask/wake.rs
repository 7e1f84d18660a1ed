//! Makes a process look for requests that takes no slow path, since it frees as much as it
//! allocates.
//!
//! Its page says where the limits of sizes are that the fast paths serve: that of `malloc`, and
//! that of callers which know a layout, which may be closed. With 0 there the next call takes the
//! slow path, which restores them and answers.
//!
//! The page may have any address. Children by `fork` write to the page of their parent, also those
//! that have become another user since, and this command may be root's. So it writes only where a
//! file is mapped, private and writable, that has a mark and the same zeros at this place: it
//! restores what the file has, which a user that can write to the file could have done before.
//!
//! A look at memory may take for ever, so a thread does it, which is left behind then.

use alloc::sync::Arc;
use core::time::Duration;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use sheaves_control::layout::CLOSING_WORDS_IN_FILE;

use super::apart;
use super::process::{Handle, Process};
use crate::prof::files::{self, Found, Place};

/// How long it may take.
const LIMIT: Duration = Duration::from_millis(100);
/// Above any limit of a fast path.
const BYTES_MAX: u64 = 1 << 20;

/// Bytes of the words, and of what is before them up to the mark.
const BYTES: usize = size_of_val(&CLOSING_WORDS_IN_FILE);

/// Closes the fast path of a process for a moment, if the caller may write to its memory.
pub(super) fn wake(process: &Process, handle: &Arc<Handle>, closing_words: u64) {
    let (process, handle) = (process.clone(), Arc::clone(handle));
    // Where it fails the process is silent, which is reported.
    let _ = apart::within(LIMIT, move || {
        let begin = closing_words.checked_sub((BYTES - 16) as u64)?;
        let memory = File::options().read(true).write(true).open(process.path("mem")).ok()?;
        let mut bytes = [0; BYTES];
        memory.read_exact_at(&mut bytes, begin).ok()?;
        let [mark, .., of_malloc, of_layouts] = words(&bytes);
        let are_limits = (1..=BYTES_MAX).contains(&of_malloc) && of_layouts <= BYTES_MAX;
        let may_write = mark == CLOSING_WORDS_IN_FILE[0]
            && are_limits
            && in_file(&process, begin)? == CLOSING_WORDS_IN_FILE
            // What is open is the memory of this process, if it is alive now, whatever gets its
            // number.
            && handle.is_alive();
        may_write.then(|| memory.write_all_at(&[0; 16], closing_words).ok()).flatten()
    });
}

/// What the file has of which a process has this address.
fn in_file(process: &Process, begin: u64) -> Option<[u64; CLOSING_WORDS_IN_FILE.len()]> {
    let mapping = process.data_at(begin)?;
    if mapping.end - begin < BYTES as u64 {
        return None;
    }
    let (place, mut bytes) = (mapping.offset.checked_add(begin - mapping.start)?, [0; BYTES]);
    match files::find(&mapping, Place::Process(process.pid))? {
        Found::Trusted(file, _) => file.read_exact_at(&mut bytes, place).ok()?,
        Found::Foreign(all) => {
            let rest = all.get(usize::try_from(place).ok()?..)?;
            bytes = *rest.first_chunk()?;
        }
    }
    Some(words(&bytes))
}

fn words(bytes: &[u8; BYTES]) -> [u64; CLOSING_WORDS_IN_FILE.len()] {
    let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    core::array::from_fn(|_| words.next().unwrap_or(0))
}
