//! Processors of the machine and the affinity of the calling thread.
//!
//! Arrays per processor are sized by the *possible* processors (highest possible id + 1), never
//! by the affinity mask or the number online: ids can be sparse, and the mask can change.

use core::ffi::CStr;

/// Used where the kernel does not tell: the largest `CONFIG_NR_CPUS` of any distribution.
pub const CPUS_MAX: usize = 8192;

/// Highest possible processor id + 1, or a little more; at most [`CPUS_MAX`].
///
/// Too many cost address space and loops, too few would be out of bounds.
#[must_use]
pub fn possible_cpus() -> usize {
    listed_cpus(c"/sys/devices/system/cpu/possible")
        .or_else(mask_bits)
        .map_or(CPUS_MAX, |count| count.clamp(1, CPUS_MAX))
}

/// Highest processor id + 1 of the kernel's list in a file; `None` where it cannot be read, as in
/// a chroot or a sandbox without `/sys`.
fn listed_cpus(path: &CStr) -> Option<usize> {
    let mut buffer = [0_u8; 4096];
    let used = crate::process::read_file(path, &mut buffer)?;
    Some(highest_id(&buffer[..used])? + 1)
}

/// Bits of the kernel's own affinity masks: every possible processor has one, and those of a
/// kernel that is built for few processors are no more than a word. `None` where the system call
/// is refused, or for more than [`CPUS_MAX`].
fn mask_bits() -> Option<usize> {
    let mut mask = [0_usize; CPUS_MAX / usize::BITS as usize];
    let (number, bytes) = (libc::SYS_sched_getaffinity, size_of_val(&mask));
    crate::errno::preserve(|| {
        // SAFETY: the mask is valid for writes of its size. The bare system call returns how many
        // bytes the kernel's mask has.
        let used = unsafe { libc::syscall(number, 0, bytes, mask.as_mut_ptr()) };
        usize::try_from(used).ok().filter(|used| *used > 0).map(|used| used * 8)
    })
}

/// Is a processor on? True where the system does not say.
#[must_use]
pub fn is_online(processor: usize) -> bool {
    let mut buffer = [0_u8; 4096];
    let used = crate::process::read_file(c"/sys/devices/system/cpu/online", &mut buffer);
    // A list that fills the buffer may go on.
    let list = used.filter(|used| *used < buffer.len()).map(|used| &buffer[..used]);
    list.and_then(|list| contains(list, processor)).unwrap_or(true)
}

/// The processor on which the thread runs now, -1 where the system does not say: old as soon as it
/// is known.
#[must_use]
pub fn current_cpu() -> i32 {
    // SAFETY: the call has no precondition.
    unsafe { libc::sched_getcpu() }
}

/// The last number of a kernel processor list such as `0-3,8-11`.
fn highest_id(list: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(list).ok()?.trim_end();
    text.rsplit(['-', ',']).next()?.parse().ok()
}

/// Is a processor on a kernel processor list such as `0-3,8-11`? `None` where that is none.
fn contains(list: &[u8], processor: usize) -> Option<bool> {
    let mut ranges = core::str::from_utf8(list).ok()?.trim_end().split(',');
    ranges.try_fold(false, |found, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = first.parse::<usize>().ok()?..=last.parse().ok()?;
        Some(found || range.contains(&processor))
    })
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

impl PartialEq for Affinity {
    fn eq(&self, other: &Affinity) -> bool {
        // SAFETY: two sets of the same size.
        unsafe { libc::CPU_EQUAL(&self.mask, &other.mask) }
    }
}

impl Eq for Affinity {}

impl Affinity {
    /// The calling thread's mask; `None` where the kernel's mask is larger than libc's type.
    #[must_use]
    pub fn current() -> Option<Affinity> {
        Affinity::of(0)
    }

    /// The same of a thread, by the kernel's number.
    #[must_use]
    pub fn of(thread: i32) -> Option<Affinity> {
        // SAFETY: an all-zero cpu_set_t is a valid, empty set.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `mask` is valid for writes of `size` bytes.
        let status = unsafe { libc::sched_getaffinity(thread, size, &raw mut mask) };
        (status == 0).then_some(Affinity { mask })
    }

    /// The mask as libc takes it: its size in bytes, and where it is.
    #[must_use]
    pub fn as_raw(&self) -> (usize, *const libc::cpu_set_t) {
        (size_of::<libc::cpu_set_t>(), &raw const self.mask)
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
    fn affinity_masks_tell_where_the_list_is_missing() {
        assert_eq!(listed_cpus(c"/nowhere/at/all"), None);
        let listed = listed_cpus(c"/sys/devices/system/cpu/possible");
        let bits = mask_bits().unwrap();
        assert!(listed.is_none_or(|count| count <= bits), "{listed:?} of {bits}");
    }

    #[test]
    fn processors_on_lists() {
        let on = |list| [0, 3, 4, 8, 11].map(|processor| contains(list, processor));
        assert_eq!(on(b"0-3,8-11\n"), [true, true, false, true, true].map(Some));
        assert_eq!(on(b"0,4\n"), [true, false, true, false, false].map(Some));
        assert_eq!(on(b"what\n"), [None; 5]);
        assert!(is_online(0));
    }

    #[test]
    fn affinity_round_trip() {
        let before = Affinity::current().unwrap();
        assert!(Affinity::only(0).unwrap().bind());
        assert!(before.bind());
    }
}
