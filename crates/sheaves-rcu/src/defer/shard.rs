//! A shard of a channel: the open block, sealed blocks, and linked heads.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering, compiler_fence, fence};

use sheaves_sys::lock::Lock;

use super::channel::Channel;
use super::head::Head;
use super::linked::Linked;
use super::pool::BLOCK_BYTES;
use super::pressure::{self, Pressure};
use super::queue::{Batch, HEADER_WORDS, Queue};
use super::{emergency, reclaimer, round, watch};
use crate::cookie::Cookie;

/// Addresses that fit into a block behind its header.
pub(super) const CAPACITY: usize = (BLOCK_BYTES - size_of::<Batch>()) / size_of::<usize>();
/// Index after the last address, in words from the start of the block.
const END: usize = HEADER_WORDS + CAPACITY;
/// A block whose objects have this many bytes is sealed, and its grace period is started.
const SEAL_BYTES: usize = 1 << 20;
/// Number of linked heads that are sealed together.
const SEAL_HEADS: usize = CAPACITY;
/// With debug assertions, a double free is searched for in the open blocks and this many sealed
/// ones.
const BLOCKS_SEARCHED: usize = 16;

const _: () = assert!(END * 8 == BLOCK_BYTES && CAPACITY == 508);

/// Protected by a shard's lock. Every change keeps `block` and `end` consistent at every
/// instruction: in the child of a fork that ran no `prepare` handler, a change may have stopped
/// anywhere.
pub(super) struct Waiting {
    /// The block that is not sealed, 0 for none; the index after its last address; its bytes.
    block: usize,
    end: usize,
    bytes: usize,
    queue: Queue,
    heads: Linked,
}

#[repr(align(128))]
pub(super) struct Shard {
    pub(super) waiting: Lock<Waiting>,
    /// Deferred objects and their bytes; change under the lock.
    pub(super) objects: AtomicUsize,
    pub(super) bytes: AtomicUsize,
    /// Linked heads; changes under the lock.
    pub(super) linked: AtomicUsize,
}

/// Memory for a block is out.
#[derive(Debug)]
pub(super) struct NoBlock;

impl Shard {
    pub(super) const fn new() -> Shard {
        let waiting = Waiting {
            block: 0,
            end: HEADER_WORDS,
            bytes: 0,
            queue: Queue::new(),
            heads: Linked::new(),
        };
        Shard {
            waiting: Lock::new(waiting),
            objects: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            linked: AtomicUsize::new(0),
        }
    }

    /// Adds an address to the open block.
    pub(super) fn push(&self, pointer: *mut u8, bytes: usize) -> Result<(), NoBlock> {
        let mut waiting = self.waiting.lock();
        if waiting.block == 0 {
            // This may need a system call, so it is not done under the lock.
            drop(waiting);
            let block = emergency::take_block().ok_or(NoBlock)?;
            waiting = self.waiting.lock();
            if waiting.block == 0 {
                (waiting.end, waiting.bytes) = (HEADER_WORDS, 0);
                // SeqCst, for the compiler only, here and below: see `Waiting`.
                compiler_fence(Ordering::SeqCst);
                waiting.block = block;
            } else {
                // SAFETY: taken above.
                unsafe { emergency::give_block(block) };
            }
        }
        let is_first = waiting.end == HEADER_WORDS;
        let entry = with_exposed_provenance_mut::<usize>(waiting.block + waiting.end * 8);
        // SAFETY: full blocks are sealed at once, so there is room.
        unsafe { entry.write(pointer.expose_provenance()) };
        // SeqCst, as above.
        compiler_fence(Ordering::SeqCst);
        waiting.end += 1;
        waiting.bytes += bytes;
        self.count(bytes);
        let is_due = waiting.end == END || waiting.bytes >= SEAL_BYTES;
        let sealed = if is_due { waiting.seal_block() } else { None };
        drop(waiting);
        if is_first {
            // SeqCst: the push is before the load of the word. [A1]
            fence(Ordering::SeqCst);
            pressure::arm();
        }
        after_seal(sealed, true);
        Ok(())
    }

    /// Defers an object by its claimed head.
    pub(super) fn link(&self, head: *mut Head, bytes: usize) {
        let mut waiting = self.waiting.lock();
        // SAFETY: valid, claimed, and on no list.
        let (heads, open_bytes) = unsafe { waiting.heads.push(head, bytes) };
        self.count(bytes);
        // Relaxed: changes under the lock.
        self.linked.fetch_add(1, Ordering::Relaxed);
        let is_due = heads >= SEAL_HEADS || open_bytes >= SEAL_BYTES;
        let sealed = if is_due { waiting.heads.seal() } else { None };
        drop(waiting);
        // SeqCst: the push is before the load of the word. [A1]
        fence(Ordering::SeqCst);
        pressure::arm();
        after_seal(sealed, true);
    }

    /// Counts an object. Under the lock.
    fn count(&self, bytes: usize) {
        // Relaxed, both: change under the lock.
        self.objects.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts sealed objects that are reclaimed. Under the lock.
    fn discount(&self, objects: usize, bytes: usize) {
        pressure::note_reclaimed(objects, bytes);
        // Relaxed, both: change under the lock.
        self.objects.fetch_sub(objects, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Frees what is ready in a channel; true if something was. For the driver.
    pub(super) fn free_ready(&self, channel: &Channel) -> bool {
        let mut any = false;
        loop {
            let ready = self.waiting.lock().queue.ready();
            let Some(block) = ready else { break };
            self.free_block(channel, block);
            any = true;
        }
        while let Some(head) = self.pop_ready() {
            // SAFETY: valid until it is freed, by the contract of `free_later_with`.
            if let Some(distance) = unsafe { (*head).finish() } {
                let pointer = with_exposed_provenance_mut(head.addr() - distance);
                channel.free_one(pointer);
            }
            any = true;
        }
        any
    }

    /// Frees the objects in the oldest block, whose cookie has passed.
    fn free_block(&self, channel: &Channel, block: usize) {
        let batch = with_exposed_provenance_mut::<Batch>(block);
        // SAFETY: the batch is at the front, and this thread is the driver.
        while let Some(index) = unsafe { Batch::advance(batch) } {
            let entry = with_exposed_provenance_mut::<usize>(block + index * 8);
            // SAFETY: an entry that was written before the block was sealed.
            let pointer = unsafe { entry.read() };
            channel.free_one(with_exposed_provenance_mut(pointer));
        }
        // SAFETY: constant after sealing.
        let count = unsafe { (*batch).count } as usize;
        // SAFETY: as above.
        let bytes = unsafe { (*batch).bytes };
        let mut waiting = self.waiting.lock();
        waiting.queue.remove_first();
        self.discount(count, bytes);
        drop(waiting);
        // SAFETY: in no queue any more.
        unsafe { emergency::give_block(block) };
    }

    /// Takes a linked head whose cookie has passed.
    fn pop_ready(&self) -> Option<*mut Head> {
        // Relaxed: a hint that saves the lock.
        if self.linked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let (head, bytes) = waiting.heads.pop_ready()?;
        self.discount(1, bytes);
        // Relaxed: changes under the lock.
        self.linked.fetch_sub(1, Ordering::Relaxed);
        Some(head)
    }

    /// Seals what is partial.
    pub(super) fn seal(&self) {
        let mut waiting = self.waiting.lock();
        let (block, list) = (waiting.seal_block(), waiting.heads.seal());
        drop(waiting);
        after_seal(block, false);
        after_seal(list, false);
    }

    /// Takes the lock in the child of a fork that ran no `prepare` handler, and counts again what
    /// is pending.
    pub(super) fn recover(&self) {
        if let Some(mut waiting) = self.waiting.acquire_to_recover(Waiting::recover) {
            self.count_again(&mut waiting);
        }
    }

    fn count_again(&self, waiting: &mut Waiting) {
        let (objects, bytes) = waiting.queue.recover();
        let open = if waiting.block == 0 { 0 } else { waiting.end - HEADER_WORDS };
        let open_bytes = if waiting.block == 0 { 0 } else { waiting.bytes };
        let [(sealed, sealed_bytes), (linked, linked_bytes)] = waiting.heads.counts();
        // Relaxed, all: change under the lock.
        self.objects.store(objects + open + linked, Ordering::Relaxed);
        self.bytes.store(bytes + open_bytes + linked_bytes, Ordering::Relaxed);
        self.linked.store(linked, Ordering::Relaxed);
        pressure::note_sealed(objects + sealed, bytes + sealed_bytes);
    }

    /// True if an address is in the open block, or in one of the oldest sealed blocks.
    pub(super) fn has(&self, address: usize) -> bool {
        let waiting = self.waiting.lock();
        let open = (waiting.block, HEADER_WORDS..waiting.end);
        let open = (waiting.block != 0).then_some(open);
        let mut blocks = open.into_iter().chain(waiting.queue.each().take(BLOCKS_SEARCHED));
        blocks.any(|(block, mut indexes)| {
            indexes.any(|index| {
                let entry = with_exposed_provenance_mut::<usize>(block + index * 8);
                // SAFETY: an entry that was written; the lock keeps its block here.
                unsafe { entry.read() == address }
            })
        })
    }
}

impl Waiting {
    fn seal_block(&mut self) -> Option<Cookie> {
        if self.block == 0 {
            return None;
        }
        pressure::note_sealed(self.end - HEADER_WORDS, self.bytes);
        Some(self.append_block())
    }

    /// Moves the open block to the end of the queue.
    fn append_block(&mut self) -> Cookie {
        let block = core::mem::take(&mut self.block);
        // SeqCst, for the compiler only: the block is in at most one place.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the block belongs to this shard, its addresses up to `end` are written, and it is
        // no longer open.
        unsafe { self.queue.append(block, HEADER_WORDS, self.end, self.bytes) }
    }

    /// In the child of a fork, if a thread that does not exist here was changing this: seals a full
    /// block, and loses the linked heads.
    fn recover(&mut self) {
        self.heads = Linked::new();
        let _ = self.queue.recover();
        if self.block != 0 && self.end == END {
            let _ = self.append_block();
        }
    }
}

/// What follows sealing.
fn after_seal(sealed: Option<Cookie>, is_due: bool) {
    let Some(cookie) = sealed else { return };
    let pressure = pressure::after_seal();
    if pressure >= Pressure::High {
        cookie.start_expedited();
    } else if is_due {
        cookie.start();
    }
    if is_due {
        reclaimer::ring(reclaimer::READY);
        watch::look();
    }
    if pressure == Pressure::Hard {
        round::help();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe fn never(_: *mut u8) {}

    #[test]
    fn a_block_that_is_full_is_sealed_and_everything_counted() {
        static CHANNEL: Channel = Channel::new("shard", never);
        static SHARD: Shard = Shard::new();
        let block = emergency::take_block().unwrap();
        let mut waiting = SHARD.waiting.lock();
        // All addresses are written, and the thread that was to seal them is gone.
        for index in HEADER_WORDS..END {
            let entry = with_exposed_provenance_mut::<usize>(block + index * 8);
            // SAFETY: in the block.
            unsafe { entry.write(index) };
        }
        (waiting.block, waiting.end, waiting.bytes) = (block, END, 5080);
        waiting.recover();
        assert_eq!((waiting.block, waiting.queue.each().count()), (0, 1));
        SHARD.count_again(&mut waiting);
        drop(waiting);
        let counts = [&SHARD.objects, &SHARD.bytes].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [CAPACITY, 5080]);
        crate::synchronize().unwrap();
        assert!(SHARD.free_ready(&CHANNEL));
        assert_eq!(SHARD.objects.load(Ordering::Relaxed), 0);
    }
}
