//! Objects that are recorded in pages of pointers, one page for each size, and freed a page at a
//! time. Nothing is written into the objects.

use core::alloc::Layout;
use core::mem::{MaybeUninit, size_of};
use core::ptr::NonNull;

use super::{CLASSES, Cpu, Form, Source};

const PAGE_BYTES: usize = 4096;
/// Bytes before the pointers.
const HEADER_BYTES: usize = size_of::<Option<Block>>() + size_of::<usize>();
/// The most pointers of a page.
const CAPACITY: usize = (PAGE_BYTES - HEADER_BYTES) / size_of::<NonNull<u8>>();
/// The most empty pages that a CPU keeps for reuse.
const SPARE_MAX: usize = 64;

/// A page of pointers.
#[repr(C)]
struct Page {
    next: Option<Block>,
    count: usize,
    objects: [MaybeUninit<NonNull<u8>>; CAPACITY],
}

const _: () = assert!(size_of::<Page>() == PAGE_BYTES && CAPACITY == 510);

/// An owned page.
struct Block(NonNull<Page>);

// SAFETY: the owner of the block owns the page and what it points to.
unsafe impl Send for Block {}

impl Block {
    const LAYOUT: Layout = match Layout::from_size_align(PAGE_BYTES, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    fn new() -> Block {
        // SAFETY: the size is not 0.
        let page = unsafe { std::alloc::alloc(Block::LAYOUT) }.cast::<Page>();
        let Some(page) = NonNull::new(page) else { std::alloc::handle_alloc_error(Block::LAYOUT) };
        let empty = Page { next: None, count: 0, objects: [MaybeUninit::uninit(); CAPACITY] };
        // SAFETY: fresh, and of that layout.
        unsafe { page.write(empty) };
        Block(page)
    }

    #[inline]
    fn page(&mut self) -> &mut Page {
        // SAFETY: the owner of the block owns the page.
        unsafe { self.0.as_mut() }
    }

    fn take_next(&mut self) -> Option<Block> {
        self.page().next.take()
    }

    /// Empties the page, and puts it in front of another one.
    fn reset(&mut self, next: Option<Block>) {
        self.page().next = next;
        self.page().count = 0;
    }

    /// Records an object; false when there is no room.
    #[inline]
    fn push(&mut self, object: NonNull<u8>) -> bool {
        let page = self.page();
        let Some(place) = page.objects.get_mut(page.count) else { return false };
        place.write(object);
        page.count += 1;
        true
    }

    fn objects(&mut self) -> &[NonNull<u8>] {
        let page = self.page();
        // SAFETY: the first `count` were written.
        unsafe { page.objects[..page.count].assume_init_ref() }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // In a loop, not recursively: a list is long.
        let mut next = self.take_next();
        while let Some(mut block) = next {
            next = block.take_next();
        }
        // SAFETY: from `new`, and not used after.
        unsafe { std::alloc::dealloc(self.0.as_ptr().cast(), Block::LAYOUT) };
    }
}

/// Pages of each size, the youngest first, and empty ones.
#[derive(Default)]
pub struct Pages {
    pages: [Option<Block>; CLASSES],
    spare: Option<Block>,
    spares: usize,
}

impl Pages {
    /// Puts another page in front of the others.
    #[inline(never)]
    fn begin(&mut self, class: usize) -> &mut Block {
        let mut block = match self.spare.take() {
            Some(mut block) => {
                self.spare = block.take_next();
                self.spares -= 1;
                block
            }
            None => Block::new(),
        };
        block.reset(self.pages[class].take());
        self.pages[class].insert(block)
    }

    /// Keeps an empty page, or returns it when there are enough.
    fn keep(&mut self, mut block: Block) -> Option<Block> {
        if self.spares == SPARE_MAX {
            return Some(block);
        }
        block.reset(self.spare.take());
        self.spare = Some(block);
        self.spares += 1;
        None
    }
}

impl core::fmt::Debug for Pages {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

/// Pages that were taken, by class.
pub struct Taken([Option<Block>; CLASSES]);

impl core::fmt::Debug for Taken {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}

impl Form for Pages {
    type Taken = Taken;

    #[inline]
    unsafe fn add(&mut self, object: NonNull<u8>, class: usize) {
        let has_room = self.pages[class].as_mut().is_some_and(|block| block.push(object));
        if !has_room {
            self.begin(class).push(object);
        }
    }

    fn take(&mut self) -> Taken {
        Taken(core::mem::take(&mut self.pages))
    }

    unsafe fn free<S: Source>(cpu: &Cpu<Pages>, source: &S, taken: Taken) {
        for (class, mut next) in taken.0.into_iter().enumerate() {
            while let Some(mut block) = next {
                next = block.take_next();
                // SAFETY: a grace period has passed, and each object was recorded once.
                unsafe { source.free_bulk(block.objects(), class) };
                // A page that is not kept is freed outside of the lock.
                drop(cpu.lock(|pages| pages.keep(block)));
            }
        }
    }
}
