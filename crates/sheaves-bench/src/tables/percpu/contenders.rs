//! What a contender of `percpu` is: anything that can hand out an object that has a place in every
//! slot.

use super::slot_memory::SlotMemory;
use super::work::Work;
use crate::harness::Failure;

/// Hands out per-CPU memory and takes it back.
///
/// Contenders are called from several threads and lock whatever they must. One that finds no
/// memory ends the program.
pub(super) trait PerCpuMemory: Sized + Send + Sync + 'static {
    type Object: Copy + Send + Sync + 'static;

    /// Rounds of a sample of `churn`: fewer where one takes seconds.
    const CHURN_ROUNDS: usize = 10;

    /// Whether its objects outlive it, so that each has to be freed.
    const OUTLIVED: bool;

    /// Whether objects of one size lie side by side, so that alignment forces no holes between
    /// those of different sizes.
    const BY_SIZE: bool;

    fn new(memory: &SlotMemory) -> Result<Self, Failure>;

    /// An object in every slot, with any content.
    fn alloc(&self, size: usize, align: usize) -> Self::Object;

    /// Makes an object zero in every slot, outside of all locks; nothing where it is zero already.
    ///
    /// # Safety
    /// The object came from this contender with this size and is not freed.
    unsafe fn zero(&self, object: Self::Object, size: usize);

    /// Takes an object back.
    ///
    /// # Safety
    /// As [`PerCpuMemory::zero`]; the object is not used any more.
    unsafe fn free(&self, object: Self::Object, size: usize);

    /// Adds 1 to the object's first word in the slot of this CPU.
    ///
    /// # Safety
    /// As [`PerCpuMemory::zero`]; the object has 8 bytes at least, aligned to 8.
    unsafe fn add(&self, object: Self::Object);

    /// What it did so far, and what it holds for the `objects` that are out.
    fn tally(&self, objects: usize) -> Work;
}
