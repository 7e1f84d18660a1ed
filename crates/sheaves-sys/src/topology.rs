//! The CPUs of the machine and the affinity of the calling thread.
//!
//! Per-CPU arrays are sized by the *possible* CPUs (highest possible `cpu_id` + 1), never by the
//! affinity mask or the number online: ids can be sparse, and the mask can change.

use core::ffi::CStr;

/// Used where the kernel does not tell: the largest `CONFIG_NR_CPUS` of any distribution. Fewer
/// under Miri, where each access to a static table costs time for all of its entries.
pub const CPUS_MAX: usize = if cfg!(miri) { 64 } else { 8192 };

/// Highest possible `cpu_id` + 1 (the kernel's `nr_cpu_ids`), or a little more; at most
/// [`CPUS_MAX`]. Too low where `/sys` is a container's view of fewer CPUs, and the thread may use
/// them only at first: see [`cpu_ids_end`].
#[unsafe(link_section = ".text.sheaves_load")]
pub fn possible_cpus() -> usize {
    possible(listed_cpus(c"/sys/devices/system/cpu/possible"), mask())
}

#[unsafe(link_section = ".text.sheaves_load")]
fn possible(listed: Option<usize>, mask: Option<Mask>) -> usize {
    let count = match (listed, mask) {
        // The list is not that of the kernel: the thread may use other CPUs.
        (Some(listed), Some(mask)) if mask.used > listed => mask.bits,
        (Some(listed), _) => listed,
        (None, mask) => mask.map_or(CPUS_MAX, |mask| mask.bits),
    };
    count.clamp(1, CPUS_MAX)
}

/// No `cpu_id` is as high as this, whatever files say; at most [`CPUS_MAX`].
pub fn cpu_ids_end() -> usize {
    mask().map_or(CPUS_MAX, |mask| mask.bits)
}

/// Highest `cpu_id` + 1 of a CPU list in a file; `None` where it cannot be read, as in a chroot or
/// a sandbox without `/sys`.
#[unsafe(link_section = ".text.sheaves_load")]
fn listed_cpus(path: &CStr) -> Option<usize> {
    let mut buffer = [0_u8; 4096];
    let used = crate::process::read_file(path, &mut buffer)?;
    Some(highest_id(&buffer[..used])? + 1)
}

/// The calling thread's mask, as far as it says which CPUs there are.
#[derive(Debug, Clone, Copy)]
struct Mask {
    /// One for every possible CPU, rounded up.
    bits: usize,
    /// The highest CPU that the calling thread may use, + 1.
    used: usize,
}

/// CPUs that there seem to be under Miri.
const MIRI_CPUS: usize = 4;

fn mask() -> Option<Mask> {
    if cfg!(miri) {
        return Some(Mask { bits: MIRI_CPUS, used: MIRI_CPUS });
    }
    let (Affinity(mask), bytes) = Affinity::read(0)?;
    let last = mask.iter().rposition(|word| *word != 0);
    let used = last.map_or(0, |last| (last + 1) * BITS - mask[last].leading_zeros() as usize);
    Some(Mask { bits: bytes * 8, used })
}

/// The CPU on which the thread runs, -1 where the kernel does not say. The thread may migrate at
/// any time.
pub fn current_cpu() -> i32 {
    // SAFETY: the call has no precondition.
    unsafe { libc::sched_getcpu() }
}

/// The last number of a kernel CPU list such as `0-3,8-11`. By bytes: the functions of `str` are on
/// pages that the load of an object does not touch otherwise.
#[unsafe(link_section = ".text.sheaves_load")]
fn highest_id(list: &[u8]) -> Option<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let end = list.iter().rposition(is_digit)? + 1;
    let begin = list[..end].iter().rposition(|byte| !is_digit(byte)).map_or(0, |at| at + 1);
    let add =
        |number: usize, byte: &u8| number.checked_mul(10)?.checked_add(usize::from(byte - b'0'));
    list[begin..end].iter().try_fold(0, add)
}

/// A set of CPUs on which threads may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity([usize; CPUS_MAX / BITS]);

const BITS: usize = usize::BITS as usize;

impl Affinity {
    /// The calling thread's mask; `None` where the system call is refused, or for more than
    /// [`CPUS_MAX`].
    pub fn current() -> Option<Affinity> {
        Affinity::of(0)
    }

    /// The mask of the thread with this kernel thread id.
    pub fn of(thread: i32) -> Option<Affinity> {
        Affinity::read(thread).map(|(mask, _)| mask)
    }

    /// The mask of a thread, and the number of bytes that the kernel's has.
    fn read(thread: i32) -> Option<(Affinity, usize)> {
        if cfg!(miri) {
            return None;
        }
        let mut mask = [0_usize; CPUS_MAX / BITS];
        let (number, bytes) = (libc::SYS_sched_getaffinity, size_of_val(&mask));
        let filled = crate::errno::preserve(|| {
            // SAFETY: the mask is valid for writes of its size. The bare system call returns how
            // many bytes the kernel's mask has.
            unsafe { libc::syscall(number, thread, bytes, mask.as_mut_ptr()) }
        });
        let bytes = usize::try_from(filled).ok().filter(|filled| *filled > 0)?;
        Some((Affinity(mask), bytes))
    }

    /// A mask of one CPU; `None` when the id is too high.
    pub fn only(cpu_id: usize) -> Option<Affinity> {
        let mut mask = [0; CPUS_MAX / BITS];
        *mask.get_mut(cpu_id / BITS)? = 1 << (cpu_id % BITS);
        Some(Affinity(mask))
    }

    /// The CPUs in the set, in ascending order.
    pub fn cpu_ids(&self) -> impl Iterator<Item = usize> {
        let is_in = |cpu_id: &usize| self.0[cpu_id / BITS] >> (cpu_id % BITS) & 1 != 0;
        (0..CPUS_MAX).filter(is_in)
    }

    /// Address and size in bytes of the mask, as libc's calls take them.
    pub(crate) fn as_raw(&self) -> (*const libc::cpu_set_t, usize) {
        (self.0.as_ptr().cast(), size_of_val(&self.0))
    }

    /// Binds the calling thread; returns once it runs on an allowed CPU.
    #[must_use]
    pub fn bind(&self) -> bool {
        if crate::sandbox::is_entered() {
            return false;
        }
        let (mask, size) = self.as_raw();
        // SAFETY: the mask is valid for reads of its size.
        unsafe { libc::sched_setaffinity(0, size, mask) == 0 }
    }
}

#[cfg(test)]
#[path = "../tests/unit/topology.rs"]
mod tests;
