//! A thread that runs operations and checks every result against the shadow.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender};

use sheaves_heap::classes::QUANTUM_BYTES;

use crate::block::{Block, Kind, Shadow, Wrong, check_alignment, check_zero};
use crate::heap::Heap;
use crate::op::{Op, mix};

/// A thread frees before it allocates when it has this many blocks.
const BLOCKS_MAX: usize = 3000;
/// Or this many bytes.
const BYTES_MAX: usize = 48 << 20;

/// A thread's blocks and its channels to the other threads.
pub(crate) struct Worker<'a, H> {
    heap: &'a H,
    shadow: &'a Shadow,
    live: Vec<Block>,
    bytes: usize,
    seed: u64,
    /// Blocks that other threads send here to be freed.
    inbox: Option<Receiver<Block>>,
    /// Channels to the other threads.
    others: Vec<Sender<Block>>,
}

impl<'a, H: Heap> Worker<'a, H> {
    /// A worker without other threads.
    pub(crate) fn new(heap: &'a H, shadow: &'a Shadow, seed: u64) -> Worker<'a, H> {
        let (live, others) = (Vec::new(), Vec::new());
        Worker { heap, shadow, live, bytes: 0, seed, inbox: None, others }
    }

    /// Connects the worker to others, with which it exchanges blocks.
    pub(crate) fn connect(&mut self, inbox: Receiver<Block>, others: Vec<Sender<Block>>) {
        self.inbox = Some(inbox);
        self.others = others;
    }

    /// Runs one operation.
    pub(crate) fn apply(&mut self, op: Op) -> Result<(), Wrong> {
        self.seed = mix(self.seed.wrapping_add(1));
        self.receive()?;
        if self.live.len() >= BLOCKS_MAX || self.bytes >= BYTES_MAX {
            self.free(self.seed as u32)?;
        }
        match op {
            Op::Malloc { size } => self.malloc(op, size),
            Op::Calloc { count, size } => {
                let start = self.heap.calloc(count, size).ok_or(Wrong::Refused(op))?;
                check_zero(start, count * size)?;
                self.enter(start, count * size, QUANTUM_BYTES, Kind::Plain)
            }
            Op::Aligned { shift, size } => {
                let start = self.heap.aligned_alloc(1 << shift, size).ok_or(Wrong::Refused(op))?;
                self.enter(start, size, 1 << shift, Kind::Plain)
            }
            Op::Layout { shift, size } => {
                let layout = Layout::from_size_align(size, 1 << shift).unwrap();
                let start = self.heap.alloc_layout(layout).ok_or(Wrong::Refused(op))?;
                self.enter(start, size, 1 << shift, Kind::Layout(layout))
            }
            Op::Realloc { which, size } => self.realloc(op, which, size),
            Op::Free { which } => self.free(which),
            Op::Send { which, to } => self.send(which, to),
            Op::CacheAlloc { cache } => {
                let start = self.heap.cache_alloc(cache).ok_or(Wrong::Refused(op))?;
                self.enter_object(start, cache)
            }
            Op::CacheAllocBulk { cache, count } => {
                let objects = self.heap.cache_alloc_bulk(cache, count);
                if objects.len() < count {
                    return Err(Wrong::Refused(op));
                }
                objects.into_iter().try_for_each(|start| self.enter_object(start, cache))
            }
            Op::CacheFreeBulk { cache, count } => self.free_bulk(cache, count),
            Op::Shrink { cache } => {
                self.heap.cache_shrink(cache);
                Ok(())
            }
            Op::FreeAll => self.free_all(),
            Op::Trim => {
                self.heap.trim();
                Ok(())
            }
        }
    }

    /// Frees the worker's blocks, and those that others send until they end.
    pub(crate) fn finish(mut self) -> Result<(), Wrong> {
        self.others.clear();
        self.free_all()?;
        for block in self.inbox.take().into_iter().flatten() {
            self.give_back(&block)?;
        }
        Ok(())
    }

    fn malloc(&mut self, op: Op, size: usize) -> Result<(), Wrong> {
        let start = self.heap.malloc(size).ok_or(Wrong::Refused(op))?;
        // Some programs use all of `malloc_usable_size`. Whether a block does depends on the
        // operation alone, so that a sequence keeps its meaning while it shrinks.
        let size = if size % 8 == 5 { self.usable(start).max(size) } else { size };
        self.enter(start, size, QUANTUM_BYTES, Kind::Plain)
    }

    fn usable(&self, start: NonNull<u8>) -> usize {
        // SAFETY: the heap has just returned the block.
        unsafe { self.heap.usable_size(start) }
    }

    fn enter(
        &mut self,
        start: NonNull<u8>,
        size: usize,
        align: usize,
        kind: Kind,
    ) -> Result<(), Wrong> {
        // Checked first: only a block with a correct start may be asked for its usable size.
        check_alignment(start, align)?;
        let measures = (size, self.usable(start));
        self.keep(Block::enter(self.shadow, start, measures, kind, self.seed)?);
        Ok(())
    }

    fn enter_object(&mut self, start: NonNull<u8>, cache: usize) -> Result<(), Wrong> {
        let layout = self.heap.cache_layout(cache);
        check_alignment(start, layout.align())?;
        let measures = (layout.size(), layout.size());
        self.keep(Block::enter(self.shadow, start, measures, Kind::Cache(cache), self.seed)?);
        Ok(())
    }

    fn keep(&mut self, block: Block) {
        self.bytes += block.size;
        self.live.push(block);
    }

    /// Takes a live block out of the list, if there is one.
    fn pick(&mut self, which: u32) -> Option<Block> {
        let index = (which as usize).checked_rem(self.live.len())?;
        let block = self.live.swap_remove(index);
        self.bytes -= block.size;
        Some(block)
    }

    fn realloc(&mut self, op: Op, which: u32, size: usize) -> Result<(), Wrong> {
        let Some(old) = self.pick(which) else { return self.malloc(op, size) };
        if old.kind != Kind::Plain {
            self.keep(old);
            return Ok(());
        }
        old.leave(self.shadow)?;
        // SAFETY: a plain block that is not used any more.
        let new = unsafe { self.heap.realloc(old.start, size) }.ok_or(Wrong::Refused(op))?;
        old.check_copy(new, old.size.min(size))?;
        self.enter(new, size, QUANTUM_BYTES, Kind::Plain)
    }

    fn free(&mut self, which: u32) -> Result<(), Wrong> {
        match self.pick(which) {
            Some(block) => self.give_back(&block),
            None => Ok(()),
        }
    }

    fn give_back(&self, block: &Block) -> Result<(), Wrong> {
        block.leave(self.shadow)?;
        match block.kind {
            // SAFETY: from this heap by the call of this kind; no longer in the shadow and not
            // used.
            Kind::Plain => unsafe { self.heap.free(block.start) },
            // SAFETY: as above.
            Kind::Layout(layout) => unsafe { self.heap.dealloc_layout(block.start, layout) },
            // SAFETY: as above.
            Kind::Cache(cache) => unsafe { self.heap.cache_free(cache, block.start) },
        }
        Ok(())
    }

    fn free_bulk(&mut self, cache: usize, count: usize) -> Result<(), Wrong> {
        let mut objects = Vec::new();
        let mut index = 0;
        while index < self.live.len() && objects.len() < count {
            if self.live[index].kind != Kind::Cache(cache) {
                index += 1;
                continue;
            }
            let block = self.live.swap_remove(index);
            self.bytes -= block.size;
            block.leave(self.shadow)?;
            objects.push(block.start);
        }
        // SAFETY: objects of this cache, each once; no longer in the shadow and not used.
        unsafe { self.heap.cache_free_bulk(cache, &objects) };
        Ok(())
    }

    fn free_all(&mut self) -> Result<(), Wrong> {
        while !self.live.is_empty() {
            self.seed = mix(self.seed.wrapping_add(1));
            self.free(self.seed as u32)?;
        }
        Ok(())
    }

    fn send(&mut self, which: u32, to: u32) -> Result<(), Wrong> {
        let Some(index) = (to as usize).checked_rem(self.others.len()) else {
            return self.free(which);
        };
        let Some(block) = self.pick(which) else { return Ok(()) };
        // A thread that has failed no longer receives; its failure is reported.
        let _ = self.others[index].send(block);
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Wrong> {
        while let Some(block) = self.inbox.as_ref().and_then(|inbox| inbox.try_recv().ok()) {
            self.give_back(&block)?;
        }
        Ok(())
    }
}
