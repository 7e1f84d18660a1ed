//! Processors of the machine and the affinity of the calling thread.
//!
//! Arrays per processor are sized by the *possible* processors (highest possible id + 1), never
//! by the affinity mask or the number online: ids can be sparse, and the mask can change.

/// Used where the kernel does not tell: the largest `CONFIG_NR_CPUS` of any distribution.
pub const PROCESSORS_MAX: usize = 8192;

/// Highest possible processor id + 1, from `/sys/devices/system/cpu/possible`.
///
/// [`PROCESSORS_MAX`] where that file is missing or unreadable: too many slots cost address
/// space, too few would be out of bounds.
#[must_use]
pub fn possible_processors() -> usize {
    let mut buffer = [0_u8; 4096];
    crate::process::read_file(c"/sys/devices/system/cpu/possible", &mut buffer)
        .and_then(|used| highest_id(&buffer[..used]))
        .map_or(PROCESSORS_MAX, |highest| (highest + 1).min(PROCESSORS_MAX))
}

/// The processor on which the thread runs now, -1 where the system does not say: old as soon as it
/// is known.
#[must_use]
pub fn current_processor() -> i32 {
    // SAFETY: the call has no precondition.
    unsafe { libc::sched_getcpu() }
}

/// The last number of a kernel processor list such as `0-3,8-11`.
fn highest_id(list: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(list).ok()?.trim_end();
    text.rsplit(['-', ',']).next()?.parse().ok()
}

/// A saved affinity mask of the calling thread.
#[derive(Clone, Copy)]
pub struct Affinity {
    mask: libc::cpu_set_t,
}

impl core::fmt::Debug for Affinity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Affinity")
    }
}

impl Affinity {
    /// The calling thread's mask; `None` where the kernel's mask is larger than libc's type.
    #[must_use]
    pub fn current() -> Option<Affinity> {
        // SAFETY: an all-zero cpu_set_t is a valid, empty set.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `mask` is valid for writes of `size` bytes.
        let status = unsafe { libc::sched_getaffinity(0, size, &raw mut mask) };
        (status == 0).then_some(Affinity { mask })
    }

    /// A mask of one processor; `None` when the id does not fit libc's type.
    #[must_use]
    pub fn only(processor: usize) -> Option<Affinity> {
        if processor >= 8 * size_of::<libc::cpu_set_t>() {
            return None;
        }
        // SAFETY: an all-zero cpu_set_t is a valid, empty set.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: `processor` is below the number of bits of the set.
        unsafe { libc::CPU_SET(processor, &mut mask) };
        Some(Affinity { mask })
    }

    /// Binds the calling thread; returns only once it runs on an allowed processor.
    #[must_use]
    pub fn bind(&self) -> bool {
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `self.mask` is valid for reads of `size` bytes.
        unsafe { libc::sched_setaffinity(0, size, &raw const self.mask) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_id_of_lists() {
        assert_eq!(highest_id(b"0-3\n"), Some(3));
        assert_eq!(highest_id(b"0\n"), Some(0));
        assert_eq!(highest_id(b"0-3,8-11\n"), Some(11));
        assert_eq!(highest_id(b"0,7"), Some(7));
        assert_eq!(highest_id(b"what"), None);
    }

    #[test]
    fn affinity_round_trip() {
        let before = Affinity::current().unwrap();
        assert!(Affinity::only(0).unwrap().bind());
        assert!(before.bind());
    }
}
