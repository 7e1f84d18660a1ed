//! Sheaves for tests: ordinary memory of the right layout, never freed.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::internal::Sheaf as Layout;

pub(crate) const ENTRIES: usize = Layout::ENTRIES;
pub(crate) const OBJECTS_MAX: usize = Layout::OBJECTS_MAX;

/// Address of the sheaf of a cursor.
pub(crate) fn base(cursor: usize) -> usize {
    cursor & !(Layout::BYTES - 1)
}

#[repr(C, align(1024))]
pub(crate) struct Sheaf([AtomicUsize; ENTRIES]);

const _: () = assert!(size_of::<Sheaf>() == Layout::BYTES);

impl Sheaf {
    /// Creates a sheaf with its sentinel in entry 0; returns the cursor of the empty sheaf.
    pub(crate) fn make() -> usize {
        let sheaf = Box::leak(Box::new(Sheaf([const { AtomicUsize::new(0) }; ENTRIES])));
        (&raw const *sheaf).expose_provenance();
        sheaf.fill(&[])
    }

    /// Writes the sentinel and then objects to the sheaf; returns the cursor.
    pub(crate) fn fill(&self, objects: &[usize]) -> usize {
        // Relaxed, here and below: the thread that fills or reads a sheaf owns it.
        self.0[0].store(1, Ordering::Relaxed);
        for (entry, object) in self.0[1..].iter().zip(objects) {
            entry.store(*object, Ordering::Relaxed);
        }
        (&raw const self.0[objects.len()]).addr()
    }

    /// The sheaf of a cursor from [`Sheaf::make`] or [`Sheaf::fill`].
    pub(crate) fn of_cursor(cursor: usize) -> &'static Sheaf {
        let sheaf = core::ptr::with_exposed_provenance::<Sheaf>(base(cursor));
        // SAFETY: cursors of these tests are in sheaves that are never freed, and all entries of
        // these are atomic.
        unsafe { &*sheaf }
    }

    /// The objects below a cursor.
    pub(crate) fn objects(cursor: usize) -> Vec<usize> {
        let sheaf = Sheaf::of_cursor(cursor);
        let count = (cursor - base(cursor)) / 8;
        sheaf.0[1..=count].iter().map(|entry| entry.load(Ordering::Relaxed)).collect()
    }
}
