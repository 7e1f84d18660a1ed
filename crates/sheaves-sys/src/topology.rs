//! The CPUs of the machine and the affinity of the calling thread.
//!
//! Per-CPU arrays are sized by the *possible* CPUs (highest possible `cpu_id` + 1), never by the
//! affinity mask or the number online: ids can be sparse, and the mask can change.

use core::ffi::CStr;

/// Used where the kernel does not tell: the largest `CONFIG_NR_CPUS` of any distribution.
pub const CPUS_MAX: usize = 8192;

/// Highest possible `cpu_id` + 1 (the kernel's `nr_cpu_ids`), or a little more; at most
/// [`CPUS_MAX`].
///
/// A result that is too high costs address space and loops; one that is too low would be out of
/// bounds.
#[must_use]
pub fn possible_cpus() -> usize {
    listed_cpus(c"/sys/devices/system/cpu/possible")
        .or_else(mask_bits)
        .map_or(CPUS_MAX, |count| count.clamp(1, CPUS_MAX))
}

/// Highest `cpu_id` + 1 of a CPU list in a file; `None` where it cannot be read, as in a chroot or
/// a sandbox without `/sys`.
fn listed_cpus(path: &CStr) -> Option<usize> {
    let mut buffer = [0_u8; 4096];
    let used = crate::process::read_file(path, &mut buffer)?;
    Some(highest_id(&buffer[..used])? + 1)
}

/// Bits of the kernel's affinity mask, which has one for every possible CPU. `None` where the
/// system call is refused, or for more than [`CPUS_MAX`].
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

/// True when the CPU is online, and where the system does not say.
#[must_use]
pub fn is_online(cpu_id: usize) -> bool {
    let mut buffer = [0_u8; 4096];
    let used = crate::process::read_file(c"/sys/devices/system/cpu/online", &mut buffer);
    // A list that fills the buffer may be longer than it.
    let list = used.filter(|used| *used < buffer.len()).map(|used| &buffer[..used]);
    list.and_then(|list| contains(list, cpu_id)).unwrap_or(true)
}

/// The CPU on which the thread runs, -1 where the system does not say. The thread may migrate at
/// any time.
#[must_use]
pub fn current_cpu() -> i32 {
    // SAFETY: the call has no precondition.
    unsafe { libc::sched_getcpu() }
}

/// The last number of a kernel CPU list such as `0-3,8-11`.
fn highest_id(list: &[u8]) -> Option<usize> {
    let text = core::str::from_utf8(list).ok()?.trim_end();
    text.rsplit(['-', ',']).next()?.parse().ok()
}

/// True when a kernel CPU list such as `0-3,8-11` contains the CPU; `None` when the text is not
/// such a list.
fn contains(list: &[u8], cpu_id: usize) -> Option<bool> {
    let mut ranges = core::str::from_utf8(list).ok()?.trim_end().split(',');
    ranges.try_fold(false, |found, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let range = first.parse::<usize>().ok()?..=last.parse().ok()?;
        Some(found || range.contains(&cpu_id))
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

    /// The mask of the thread with this kernel thread id.
    #[must_use]
    pub fn of(thread: i32) -> Option<Affinity> {
        // SAFETY: an all-zero cpu_set_t is a valid, empty set.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `mask` is valid for writes of `size` bytes.
        let status = unsafe { libc::sched_getaffinity(thread, size, &raw mut mask) };
        (status == 0).then_some(Affinity { mask })
    }

    /// Size in bytes and address of the mask, as libc's calls take them.
    #[must_use]
    pub fn as_raw(&self) -> (usize, *const libc::cpu_set_t) {
        (size_of::<libc::cpu_set_t>(), &raw const self.mask)
    }

    /// A mask of one CPU; `None` when the id does not fit libc's type.
    #[must_use]
    pub fn only(cpu_id: usize) -> Option<Affinity> {
        if cpu_id >= 8 * size_of::<libc::cpu_set_t>() {
            return None;
        }
        // SAFETY: an all-zero cpu_set_t is a valid, empty set.
        let mut mask: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: `cpu_id` is below the number of bits of the set.
        unsafe { libc::CPU_SET(cpu_id, &mut mask) };
        Some(Affinity { mask })
    }

    /// Binds the calling thread; returns once it runs on an allowed CPU.
    #[must_use]
    pub fn bind(&self) -> bool {
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: `self.mask` is valid for reads of `size` bytes.
        unsafe { libc::sched_setaffinity(0, size, &raw const self.mask) == 0 }
    }
}

#[cfg(test)]
#[path = "../tests/unit/topology.rs"]
mod tests;
