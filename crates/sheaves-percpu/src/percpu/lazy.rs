//! Per-CPU values in statics.

use core::fmt;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Error;
use crate::percpu::{PerCpu, Zeroed};

/// A [`PerCpu`] for a `static`. It is usable from the program's first instruction on and allocates
/// at the first use. After that, each use also tests a value that it loads anyway.
///
/// ```
/// # mod sheaves { pub use sheaves_percpu as percpu; }
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use sheaves::percpu::PerCpuStatic;
///
/// static SEEN: PerCpuStatic<AtomicU64> = PerCpuStatic::new();
///
/// SEEN.get().fetch_add(1, Ordering::Relaxed);
/// assert_eq!(SEEN.iter().map(|slot| slot.load(Ordering::Relaxed)).sum::<u64>(), 1);
/// ```
///
/// | `bits` | meaning | transitions |
/// |---|---|---|
/// | 0 | no memory yet | -> the bits of a [`PerCpu`], by the first thread that could allocate |
/// | other | the bits of a [`PerCpu`] | final |
pub struct PerCpuStatic<T> {
    bits: AtomicU32,
    /// The single value that all slots share when memory is out.
    spare: T,
}

impl<T: Zeroed + Sync> PerCpuStatic<T> {
    /// A static that is zero in every slot.
    #[must_use]
    pub const fn new() -> PerCpuStatic<T> {
        // SAFETY: zero bytes are a valid value of the type.
        let spare = unsafe { core::mem::zeroed() };
        PerCpuStatic { bits: AtomicU32::new(0), spare }
    }

    /// The values of all slots.
    ///
    /// The first use allocates, see [`PerCpu::zeroed`].
    ///
    /// # Errors
    /// See [`Error`]. A later call tries again.
    #[inline]
    pub fn try_all(&self) -> Result<&PerCpu<T>, Error> {
        match self.made() {
            Some(made) => Ok(made),
            None => self.make(),
        }
    }

    #[inline]
    fn made(&self) -> Option<&PerCpu<T>> {
        // Acquire pairs with the Release in `make`: the memory is allocated.
        if self.bits.load(Ordering::Acquire) == 0 {
            return None;
        }
        let made = self.bits.as_ptr().cast::<PerCpu<T>>();
        // SAFETY: 1. a value other than 0 is the bits of a `PerCpu<T>`, which is a number of the
        // same size; 2. these bits are never written again.
        Some(unsafe { &*made })
    }

    #[cold]
    fn make(&self) -> Result<&PerCpu<T>, Error> {
        let number = PerCpu::<T>::zeroed()?.into_raw();
        // Release pairs with the Acquire in `made`. Acquire on failure pairs with the Release of
        // the thread that was first.
        let won = self.bits.compare_exchange(0, number.get(), Ordering::Release, Ordering::Acquire);
        if won.is_err() {
            // SAFETY: created above, and converted back once.
            drop(unsafe { PerCpu::<T>::from_raw(number) });
        }
        self.made().ok_or(Error::NoMemory)
    }

    /// The value of the current slot, see [`PerCpu::get`]. When memory is out, it is one value that
    /// all threads share.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &T {
        match self.try_all() {
            Ok(all) => all.get(),
            Err(_) => &self.spare,
        }
    }

    /// The values of all slots that threads have used, see [`PerCpu::iter`], and the one value that
    /// all threads share when memory is out.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.made().into_iter().flat_map(PerCpu::iter).chain(core::iter::once(&self.spare))
    }
}

impl<T: Zeroed + Sync> Default for PerCpuStatic<T> {
    fn default() -> PerCpuStatic<T> {
        PerCpuStatic::new()
    }
}

impl<T> Drop for PerCpuStatic<T> {
    fn drop(&mut self) {
        if let Some(number) = NonZeroU32::new(*self.bits.get_mut()) {
            // SAFETY: the number of a `PerCpu` that `make` has created; this is its last use.
            drop(unsafe { PerCpu::<T>::from_raw(number) });
        }
    }
}

impl<T: Zeroed + Sync + fmt::Debug> fmt::Debug for PerCpuStatic<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
