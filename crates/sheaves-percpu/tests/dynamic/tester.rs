//! An allocator, a model of it, and operations on both that verify all metadata.

use std::collections::BTreeMap;

use super::verify::Violation;
use crate::dynamic::{Allocator, Config, Error, FreeError};

use super::arena::Arena;
use super::random::Random;

pub(crate) struct Tester {
    pub(crate) allocator: Allocator<Arena>,
    /// Size in the bitmaps and offset of each object.
    objects: BTreeMap<usize, usize>,
    /// Offsets of the objects in random order, to pick from.
    pub(crate) offsets: Vec<usize>,
    /// An offset that was freed and not allocated again, for a double free.
    freed: Option<usize>,
    operations: usize,
}

/// What went wrong: metadata, or the place of an object.
pub(crate) type Outcome = Result<(), String>;

impl Tester {
    pub(crate) fn new(config: Config) -> Tester {
        Tester {
            allocator: Allocator::new(Arena::new(), config).unwrap(),
            objects: BTreeMap::new(),
            offsets: Vec::new(),
            freed: None,
            operations: 0,
        }
    }

    fn chunk_of(&self, offset: usize) -> usize {
        offset / self.allocator.config().unit_bytes
    }

    /// Allocates and checks the object and its chunk.
    pub(crate) fn alloc(&mut self, size: usize, align: usize) -> Outcome {
        match self.allocator.alloc(size, align) {
            Ok(offset) => {
                self.enter(offset, size, align)?;
                self.verify_after(Some(offset))
            }
            Err(Error::Exhausted) => {
                self.check_refusal(size, align)?;
                self.verify_after(None)
            }
            Err(Error::NoMemory) => self.verify_after(None),
            Err(error) => Err(format!("alloc({size}, {align}): {error}")),
        }
    }

    /// Enters a new object into the model; fails if its place is wrong.
    fn enter(&mut self, offset: usize, size: usize, align: usize) -> Outcome {
        let Config { unit_bytes, chunks_max } = self.allocator.config();
        let bytes = size.next_multiple_of(4);
        let in_unit = offset % unit_bytes;
        if in_unit + bytes > unit_bytes || offset >= chunks_max * unit_bytes {
            return Err(format!("object {offset}+{bytes} lies outside of its unit"));
        }
        if !in_unit.is_multiple_of(align.max(4)) {
            return Err(format!("object {offset} is not aligned to {align}"));
        }
        let before = self.objects.range(..offset + bytes).next_back();
        if let Some((other, other_bytes)) = before
            && other + other_bytes > offset
        {
            return Err(format!("object {offset}+{bytes} overlaps {other}+{other_bytes}"));
        }
        self.objects.insert(offset, bytes);
        self.offsets.push(offset);
        if self.freed == Some(offset) {
            self.freed = None;
        }
        Ok(())
    }

    /// After "exhausted", nothing may fit.
    fn check_refusal(&self, size: usize, align: usize) -> Outcome {
        let Config { unit_bytes, chunks_max } = self.allocator.config();
        let end = chunks_max * unit_bytes;
        let mut at = 0;
        for (offset, bytes) in self.objects.iter().map(|(o, b)| (*o, *b)).chain([(end, 0)]) {
            while at < offset {
                let gap_end = offset.min((at / unit_bytes + 1) * unit_bytes);
                let place = at.next_multiple_of(align.max(4));
                if place + size <= gap_end {
                    return Err(format!("exhausted, but {size}@{align} fits at {place}"));
                }
                at = gap_end;
            }
            at = offset + bytes;
        }
        Ok(())
    }

    /// Frees the object at `index` of those to pick from.
    pub(crate) fn free(&mut self, index: usize) -> Outcome {
        let offset = self.offsets.swap_remove(index);
        let bytes = self.objects.remove(&offset).unwrap();
        let calls = self.allocator.backing().calls;
        let freed = self.allocator.free(offset);
        if self.allocator.backing().calls != calls {
            return Err("free called the backing".into());
        }
        if freed != Ok(bytes) {
            return Err(format!("free({offset}): {freed:?}, expected {bytes} bytes"));
        }
        self.freed = Some(offset);
        self.verify_after(Some(offset))
    }

    /// Frees something that is not an object, in one of several ways; each has to be refused.
    pub(crate) fn free_badly(&mut self, random: &mut Random) -> Outcome {
        let Config { unit_bytes, chunks_max } = self.allocator.config();
        let (offset, expected) = match random.below(4) {
            0 => (chunks_max * unit_bytes + random.below(1 << 40), Some(FreeError::Foreign)),
            1 => (random.below(chunks_max * unit_bytes), None),
            2 => match self.freed {
                Some(freed) => (freed, None),
                None => return Ok(()),
            },
            _ if self.offsets.is_empty() => return Ok(()),
            _ => {
                let offset = self.offsets[random.below(self.offsets.len())];
                (offset + 1 + random.below(self.objects[&offset] - 1), Some(FreeError::NotAnObject))
            }
        };
        if self.objects.contains_key(&offset) {
            return Ok(());
        }
        match self.allocator.free(offset) {
            Err(error) if expected.is_none_or(|expected| expected == error) => {}
            other => return Err(format!("free({offset}) of no object: {other:?}")),
        }
        self.verify_after(None)
    }

    pub(crate) fn balance(&mut self) -> Outcome {
        self.allocator.balance();
        self.verify_everything()
    }

    pub(crate) fn trim(&mut self) -> Outcome {
        trim(&mut self.allocator);
        let statistics = self.allocator.statistics();
        if statistics.empty_pages != 0 {
            return Err(format!("{} empty pages after trim", statistics.empty_pages));
        }
        self.verify_everything()
    }

    /// Always verifies the chunk of an operation, and sometimes everything.
    fn verify_after(&mut self, offset: Option<usize>) -> Outcome {
        self.operations += 1;
        if self.operations.is_multiple_of(128) {
            return self.verify_everything();
        }
        match offset.map(|offset| self.chunk_of(offset)) {
            Some(chunk) => self.named(|allocator| allocator.verify_chunk(chunk)),
            None => Ok(()),
        }
    }

    fn named(
        &mut self,
        verify: impl FnOnce(&mut Allocator<Arena>) -> Result<(), Violation>,
    ) -> Outcome {
        verify(&mut self.allocator).map_err(|violation| violation.to_string())
    }

    /// Verifies all metadata, and the model against the boundary bitmap and the backing.
    pub(crate) fn verify_everything(&mut self) -> Outcome {
        self.named(Allocator::verify)?;
        let mut found = BTreeMap::new();
        self.allocator.for_each_object(|offset, bytes| {
            found.insert(offset, bytes);
        });
        if found != self.objects {
            return Err("the boundary map does not have the objects of the model".into());
        }
        let chunks: Vec<usize> = self.allocator.chunks().collect();
        if !chunks.iter().eq(&self.allocator.backing().chunks) {
            return Err("the backing has other chunks".into());
        }
        Ok(())
    }

    /// Frees everything.
    pub(crate) fn finish(&mut self) -> Outcome {
        while !self.offsets.is_empty() {
            self.free(self.offsets.len() - 1)?;
        }
        self.trim()?;
        let pages = self.allocator.statistics().populated_pages;
        if pages > 0 {
            return Err(format!("{pages} pages are populated without an object"));
        }
        Ok(())
    }
}

/// Trims as a whole.
pub(crate) fn trim(allocator: &mut Allocator<Arena>) {
    let mut from = Some(0);
    while let Some(next) = from {
        from = allocator.trim(next);
    }
}

/// Balances until nothing is left to do.
pub(crate) fn balance(allocator: &mut Allocator<Arena>) {
    while allocator.balance_wanted() {
        allocator.balance();
    }
}
