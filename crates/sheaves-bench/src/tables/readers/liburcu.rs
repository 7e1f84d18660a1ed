//! Readers of liburcu, in each of its flavours.

use super::contenders::{Chain, Read};
use super::root::Root;
use crate::contenders::liburcu::Flavour;

/// A flavour. The updater waits each time.
pub(super) struct Reader {
    flavour: Flavour,
    root: Root,
}

impl Reader {
    pub(super) fn new(flavour: Flavour, chain: Chain) -> Reader {
        Reader { flavour, root: Root::new(chain) }
    }
}

impl Read for Reader {
    fn enter_thread(&self) {
        // SAFETY: the thread is not registered: workloads leave what they have entered.
        unsafe { (self.flavour.enter_thread)() };
    }

    fn leave_thread(&self) {
        // SAFETY: the thread is registered, and in no section.
        unsafe { (self.flavour.leave_thread)() };
    }

    fn sections(&self, count: usize) {
        // SAFETY: the thread has entered.
        unsafe { (self.flavour.sections)(count) };
    }

    fn loads<const K: usize>(&self, count: usize) -> u64 {
        // SAFETY: the thread has entered, the chain has `K` nodes, and `replace` waits for readers.
        unsafe { (self.flavour.loads)(self.root.atomic().as_ptr().cast(), K, count) }
    }

    fn replace(&self, chain: Chain) {
        let old = self.root.swap(chain);
        // SAFETY: workloads replace on a thread that has entered nothing.
        unsafe { (self.flavour.synchronize)() };
        // SAFETY: from a box, and all readers are gone.
        drop(unsafe { Box::from_raw(old.as_ptr()) });
    }
}
