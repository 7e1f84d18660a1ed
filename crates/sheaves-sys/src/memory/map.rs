//! Address space: `mmap`, `mprotect`, `madvise`, `mremap`, `munmap`.
//!
//! Addresses are plain numbers here. A call that fails changes nothing, and every call keeps
//! `errno`. The kernel is called directly: libc's functions may be those of a sanitizer, which ends
//! the process for an address that it has not chosen.

use core::ops::Range;
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::{errno, process, sandbox};

/// How many mappings a process may have, unless `vm.max_map_count` says otherwise. What the library
/// takes is a share of this one: the file would cost the start of each program 14 us (Zen 4).
pub const MAPPINGS_MAX: usize = 65_530;

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Of these calls Miri knows the mapping of fresh memory, by libc's function, and none by number.
/// That memory is readable and writable from the start, and is never unmapped.
///
/// # Safety
/// None.
#[cfg(miri)]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let [_, bytes, _, asked, _, _] = arguments;
    match number {
        libc::SYS_mprotect => Ok(0),
        libc::SYS_mmap if asked as i32 & !libc::MAP_NORESERVE == flags => {
            // SAFETY: no existing mapping is touched.
            match unsafe { libc::mmap(core::ptr::null_mut(), bytes, READ_WRITE, flags, -1, 0) } {
                libc::MAP_FAILED => Err(errno::ENOMEM),
                start => Ok(start.expose_provenance()),
            }
        }
        _ => Err(errno::ENOSYS),
    }
}

/// A system call; its result or its error.
///
/// # Safety
/// The memory that it changes is the caller's.
#[cfg(not(miri))]
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, i32> {
    let [a, b, c, d, e, f] = arguments;
    errno::preserve(|| {
        // SAFETY: the same contract.
        match unsafe { libc::syscall(number, a, b, c, d, e, f) } {
            -1 => Err(errno::get()),
            result => Ok(result as usize),
        }
    })
}

/// `mprotect`; true when the kernel has done it.
///
/// # Safety
/// The caller owns the range.
unsafe fn protect(address: usize, bytes: usize, protection: i32) -> bool {
    // SAFETY: the same contract.
    unsafe { call(libc::SYS_mprotect, [address, bytes, protection as usize, 0, 0, 0]) }.is_ok()
}

/// Bytes per page of this machine (4, 16 or 64 KiB), read at run time where the architecture leaves
/// the choice to the kernel.
#[inline]
pub fn page_bytes() -> usize {
    if cfg!(target_arch = "x86_64") {
        return 4096;
    }
    match process::auxiliary(libc::AT_PAGESZ) {
        0 => 4096,
        bytes => bytes,
    }
}

/// True if all pages of a range are readable, which are resident then. False also before Linux 5.14
/// (`MADV_POPULATE_READ`).
pub(crate) fn populate_read(address: usize, bytes: usize) -> bool {
    is_advice_taken()
        && advise(address, bytes.next_multiple_of(page_bytes()), libc::MADV_POPULATE_READ)
}

/// The address of a new mapping, or the error of `mmap`.
fn map(address: usize, bytes: usize, protection: i32, flags: i32) -> Result<usize, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let [protection, flags, no_file] = [protection, flags, -1].map(|number| number as usize);
    // SAFETY: without MAP_FIXED no existing mapping is touched.
    unsafe { call(libc::SYS_mmap, [address, bytes, protection, flags, no_file, 0]) }
}

/// Zeroed read-write memory at an address that the kernel chooses; `None` when it refuses.
#[must_use]
pub fn anywhere(bytes: usize) -> Option<usize> {
    map(0, bytes, READ_WRITE, 0).ok()
}

/// Maps the beginning of a file, shared with other processes: at an address that the kernel chooses
/// if `address` is 0, and otherwise in place of what is mapped there.
///
/// # Safety
/// Memory at an address other than 0 is the caller's, and may change its contents.
#[must_use]
pub unsafe fn shared(address: usize, bytes: usize, descriptor: i32) -> Option<usize> {
    let flags = if address == 0 { libc::MAP_SHARED } else { libc::MAP_SHARED | libc::MAP_FIXED };
    let [protection, flags, file] = [READ_WRITE, flags, descriptor].map(|number| number as usize);
    // SAFETY: what is replaced is the caller's.
    unsafe { call(libc::SYS_mmap, [address, bytes, protection, flags, file, 0]) }.ok()
}

/// Maps the beginning of the file of a shared mapping once more, elsewhere.
///
/// # Safety
/// The mapping of the beginning is the caller's.
#[must_use]
pub unsafe fn shared_again(address: usize, bytes: usize) -> Option<usize> {
    // A length of 0 leaves the mapping, and makes another one of the same pages.
    // SAFETY: nothing is moved or replaced.
    unsafe { remap([address, 0, bytes], libc::MREMAP_MAYMOVE, 0) }
}

/// Zeroed read-write memory at a multiple of `align` (a power of two), and the mapping with it in
/// it: larger where the kernel refuses to unmap the rest, see [`unmap`].
#[must_use]
pub fn aligned(bytes: usize, align: usize) -> Option<(usize, Range<usize>)> {
    let all = bytes.checked_add(align.saturating_sub(page_bytes()))?;
    let start = anywhere(all)?;
    let address = start.next_multiple_of(align);
    let (end, mut mapping) = (address + bytes, start..start + all);
    // SAFETY: the head of a mapping made above, not handed out.
    if address > start && unsafe { unmap(start, address - start) } {
        mapping.start = address;
    }
    // SAFETY: the tail of a mapping made above, not handed out.
    if mapping.end > end && unsafe { unmap(end, mapping.end - end) } {
        mapping.end = end;
    }
    Some((address, mapping))
}

/// How an attempt to map an exact range ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exactly {
    /// The range is mapped.
    Mapped,
    /// The range is in use, or the kernel treated the address as a mere hint (before Linux 4.17, in
    /// a sandbox, or an emulator).
    Occupied,
    /// The kernel refuses any mapping of this size.
    Refused,
}

/// Zeroed read-write memory exactly at `address`; nothing is replaced.
#[must_use]
pub fn exactly(address: usize, bytes: usize) -> Exactly {
    map_exactly(address, bytes, READ_WRITE, 0)
}

/// [`reserve`] exactly at `address`; nothing is replaced.
#[must_use]
pub fn reserve_exactly(address: usize, bytes: usize) -> bool {
    map_exactly(address, bytes, libc::PROT_NONE, libc::MAP_NORESERVE) == Exactly::Mapped
}

#[unsafe(link_section = ".text.sheaves_load")]
fn map_exactly(address: usize, bytes: usize, protection: i32, flags: i32) -> Exactly {
    // Sandboxes may know the flags of older mallocs only: Chromium's ends the process for this one.
    // There the address is a hint, which the kernel follows if the range is free.
    let no_replace = if sandbox::is_entered() { 0 } else { libc::MAP_FIXED_NOREPLACE };
    match map(address, bytes, protection, flags | no_replace) {
        Ok(found) if found == address => Exactly::Mapped,
        Ok(elsewhere) => {
            // SAFETY: the mapping was made above and is not handed out.
            unsafe { unmap(elsewhere, bytes) };
            Exactly::Occupied
        }
        Err(errno::EEXIST) => Exactly::Occupied,
        Err(_) => Exactly::Refused,
    }
}

/// Reserves address space without memory; [`commit`] makes parts of it usable.
#[must_use]
pub fn reserve(bytes: usize) -> Option<usize> {
    map(0, bytes, libc::PROT_NONE, libc::MAP_NORESERVE).ok()
}

/// Makes part of a reservation, or what [`uncommit`] made inaccessible, readable and writable.
/// False when the kernel refuses.
///
/// # Safety
/// The caller owns the range.
#[must_use]
pub unsafe fn commit(address: usize, bytes: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { protect(address, bytes, READ_WRITE) }
}

/// Makes memory inaccessible and returns its pages, as far as the kernel permits.
///
/// # Safety
/// As [`discard`].
pub unsafe fn hide(address: usize, bytes: usize) {
    // SAFETY: the caller owns the range, and nothing in it is live.
    let _ = unsafe { protect(address, bytes, libc::PROT_NONE) };
    let _ = drop_pages(address, bytes);
}

/// Makes memory inaccessible, with its contents. False when the kernel refuses.
///
/// # Safety
/// The caller owns the range, and nothing in it is live.
#[must_use]
pub unsafe fn forbid(address: usize, bytes: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { protect(address, bytes, libc::PROT_NONE) }
}

/// Undoes [`commit`]: returns the pages to the kernel, and as far as the kernel permits, makes them
/// inaccessible.
///
/// # Safety
/// As [`discard`].
pub unsafe fn uncommit(address: usize, bytes: usize) {
    // SAFETY: the same contract.
    unsafe { discard(address, bytes) };
    // SAFETY: as above.
    let _ = unsafe { protect(address, bytes, libc::PROT_NONE) };
}

/// Returns the pages of a mapping to the kernel; the next access reads zeros.
///
/// Memory that the program has locked (`mlock`) is returned by Linux 5.18 and later. Older kernels
/// keep it, and it is zeroed here.
///
/// # Safety
/// The caller owns the whole range, and nothing in it is live or referred to.
pub unsafe fn discard(address: usize, bytes: usize) {
    if !drop_pages(address, bytes) {
        // SAFETY: the caller owns the range, which is readable and writable.
        unsafe { with_exposed_provenance_mut::<u8>(address).write_bytes(0, bytes) };
    }
}

/// True when the kernel has taken the pages back.
fn drop_pages(address: usize, bytes: usize) -> bool {
    /// `MADV_DONTNEED` that does not refuse locked memory.
    const MADV_DONTNEED_LOCKED: i32 = 24;
    let drop = |advice| advise(address, bytes, advice);
    is_advice_taken() && (drop(libc::MADV_DONTNEED) || drop(MADV_DONTNEED_LOCKED))
}

/// True unless `madvise` reports success and does nothing: so does qemu's user mode before 7.1.
fn is_advice_taken() -> bool {
    /// 0 until it is known, 1 if not, 2 if it is taken.
    static ANSWER: AtomicU8 = AtomicU8::new(0);
    // Relaxed, both: a number that stays the same, and leads to nothing.
    let mut answer = ANSWER.load(Ordering::Relaxed);
    if answer == 0 {
        answer = try_advice().map_or(0, |is_taken| 1 + u8::from(is_taken));
        ANSWER.store(answer, Ordering::Relaxed);
    }
    answer != 1
}

/// Discards a page of its own. True also where the kernel refuses; `None` when there is no page.
#[cold]
fn try_advice() -> Option<bool> {
    let bytes = page_bytes();
    let address = anywhere(bytes)?;
    let byte = with_exposed_provenance_mut::<u8>(address);
    // SAFETY: mapped just now. Volatile, here and below: the kernel changes it in between.
    unsafe { byte.write_volatile(1) };
    let is_discarded = advise(address, bytes, libc::MADV_DONTNEED);
    // SAFETY: as above.
    let is_zero = unsafe { byte.read_volatile() } == 0;
    // SAFETY: as above, and not used any more. `unmap` would come back here if that is refused.
    let _ = unsafe { call(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) };
    Some(is_zero || !is_discarded)
}

/// Asks the kernel to use no huge pages for this range. False when it refuses.
#[must_use]
#[unsafe(link_section = ".text.sheaves_load")]
pub fn avoid_huge_pages(address: usize, bytes: usize) -> bool {
    advise(address, bytes, libc::MADV_NOHUGEPAGE)
}

/// Asks the kernel to use huge pages for this range; it does where `madvise` enables them. False
/// when it refuses.
#[must_use]
pub fn prefer_huge_pages(address: usize, bytes: usize) -> bool {
    advise(address, bytes, libc::MADV_HUGEPAGE)
}

/// Makes the kernel zero whole pages in every child of a fork. False before Linux 4.14.
#[must_use]
pub(crate) fn wipe_on_fork(address: usize, bytes: usize) -> bool {
    advise(address, bytes, libc::MADV_WIPEONFORK)
}

/// True when the kernel took the advice.
fn advise(address: usize, bytes: usize, advice: i32) -> bool {
    // SAFETY: the advice keeps contents, or the caller of `discard` or `unmap` guarantees that
    // nothing in the range is live.
    unsafe { call(libc::SYS_madvise, [address, bytes, advice as usize, 0, 0, 0]) }.is_ok()
}

/// Removes a mapping that the caller owns and that nothing refers to any more.
///
/// False when the kernel refuses: unmapping part of a mapping splits it, and `vm.max_map_count`
/// limits the number of mappings. The pages are returned even so, if `madvise` permits it, and the
/// address space stays the caller's.
///
/// # Safety
/// The caller owns the whole range, and nothing in it is live or referred to.
pub unsafe fn unmap(address: usize, bytes: usize) -> bool {
    // SAFETY: the caller owns the range and nothing in it is live.
    let is_unmapped = unsafe { call(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) }.is_ok();
    if !is_unmapped {
        let _ = drop_pages(address, bytes);
    }
    is_unmapped
}

/// Resizes a mapping from [`anywhere`] or [`aligned`], moving it if `may_move`; contents stay.
/// `None`, with the old mapping unchanged, when the kernel refuses.
///
/// # Safety
/// The caller owns the mapping, `old_bytes` is its size, and after success nothing uses the old
/// address.
#[must_use]
pub unsafe fn resize(
    address: usize,
    old_bytes: usize,
    new_bytes: usize,
    may_move: bool,
) -> Option<usize> {
    let flags = if may_move { libc::MREMAP_MAYMOVE } else { 0 };
    // SAFETY: the same contract.
    unsafe { remap([address, old_bytes, new_bytes], flags, 0) }
}

/// Moves a mapping to `to`, in place of what is mapped there, with a new size; contents stay, and
/// nothing is mapped at the old address then. False, with all unchanged or `to` unmapped, when the
/// kernel refuses.
///
/// # Safety
/// As [`resize`]; and the caller owns the new range, in which nothing is live.
#[must_use]
pub unsafe fn move_to(address: usize, old_bytes: usize, new_bytes: usize, to: usize) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the same contract.
    unsafe { remap([address, old_bytes, new_bytes], flags, to) }.is_some()
}

/// Makes the mapping that ends at an address longer, by memory that reads as zeros. It also works
/// where the process has as many mappings as it may have. False when the kernel refuses.
///
/// # Safety
/// The caller owns the mapping.
#[must_use]
pub unsafe fn extend(end: usize, more: usize) -> bool {
    let page = page_bytes();
    // SAFETY: the last page stays where it is, and what follows it is free.
    unsafe { remap([end - page, page, page + more], 0, 0) }.is_some()
}

/// `mremap` of an address with its old size, to the new size; the last number is where to.
///
/// # Safety
/// As [`move_to`].
unsafe fn remap([address, old, new]: [usize; 3], flags: i32, to: usize) -> Option<usize> {
    // SAFETY: the caller owns the mapping, and what is at `to` if the flags say so; on success it
    // uses the new address only.
    unsafe { call(libc::SYS_mremap, [address, old, new, flags as usize, to, 0]) }.ok()
}

/// The soft limit on the address space in bytes (`RLIMIT_AS`), `None` where there is none.
pub fn limit_bytes() -> Option<usize> {
    let limit = process::limit(libc::RLIMIT_AS);
    (limit != libc::RLIM_INFINITY).then(|| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Brings the line of an address into the CPU's caches. A hint: any address is valid, and on other
/// architectures than x86-64 nothing is done.
#[inline]
pub fn prefetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: any address is valid for it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::with_exposed_provenance(address)) };
    }
    let _unused_elsewhere = address;
}
