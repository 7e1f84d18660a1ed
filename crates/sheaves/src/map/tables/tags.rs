//! Tags: a byte of the hash of each entry of a bucket, in one word.

/// The highest bit of each tag, which a vacant place lacks.
pub(in crate::map) const OCCUPIED: u64 = 0x8080_8080_8080;
const ONES: u64 = 0x0101_0101_0101;
/// The bits of the tags in the word of a bucket.
pub(in crate::map) const TAGS: u64 = 0xFFFF_FFFF_FFFF;

/// The tag of a hash: bits that do not select its bucket.
#[inline(always)]
pub(in crate::map) fn tag_of(hash: u64) -> u64 {
    (hash >> 57) | 0x80
}

/// An iterator over places of a word.
#[derive(Debug, Clone, Copy)]
pub(in crate::map) struct Places(u64);

impl Places {
    #[inline(always)]
    pub(in crate::map) fn occupied(word: u64) -> Places {
        Places(word & OCCUPIED)
    }

    #[inline(always)]
    pub(in crate::map) fn vacant(word: u64) -> Places {
        Places(!word & OCCUPIED)
    }

    /// The places with this tag. Rarely, by a borrow of the subtraction, also a place after one of
    /// them whose tag differs in its lowest bit; never a vacant one.
    #[inline(always)]
    pub(in crate::map) fn matching(word: u64, tag: u64) -> Places {
        // Bytes with the tag become 0 and borrow, vacant ones keep their highest bit.
        Places((word ^ (tag * ONES)).wrapping_sub(ONES) & word & OCCUPIED)
    }
}

impl Iterator for Places {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let place = self.0.trailing_zeros() as usize / 8;
        self.0 &= self.0 - 1;
        Some(place)
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/map_tags.rs"]
mod tests;
