//! What a contender of `percpu` did, in numbers that are the same on every machine.

use serde::{Deserialize, Serialize};

/// The work behind the first sample of a row. What a contender does not count is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// What the allocator did, where it is one that works with chunks.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) chunks: Option<ChunkWork>,
    /// Free bytes of one slot, in runs that are too short for the smallest object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unusable_bytes: Option<u64>,
    /// Bytes of one slot that hold memory because of the objects.
    pub(crate) bytes_in_use: u64,
    /// Bytes of the objects, and of the holes that their alignment forces, in one slot.
    pub(crate) bytes_ideal: u64,
}

/// What an allocator did that works with chunks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChunkWork {
    /// Chunks that were tested for room, per allocation.
    pub(crate) chunks_tested: f64,
    /// Words of the bitmaps that were read, per allocation.
    pub(crate) words_read: f64,
    /// Blocks whose hints were found anew from the bitmap, per allocation.
    pub(crate) block_refreshes: f64,
    /// Blocks that were visited to find the hints of chunks anew, per allocation.
    pub(crate) blocks_visited: f64,
    /// Chunks that were taken out of the search because nothing fits, all together.
    pub(crate) relegations: u64,
    /// Chunks at the end.
    pub(crate) chunks_live: u64,
    /// Populated pages at the end, in one slot.
    pub(crate) populated_pages: u64,
    /// Bytes of metadata at the end; they exist once, not in each slot.
    pub(crate) metadata_bytes: u64,
}

impl Work {
    /// Memory in use to what the objects need at least.
    pub(crate) fn memory_ratio(&self) -> f64 {
        self.bytes_in_use as f64 / self.bytes_ideal as f64
    }

    /// Chunks tested per allocation, where there are chunks.
    pub(crate) fn chunks_tested(&self) -> Option<f64> {
        self.chunks.as_ref().map(|chunks| chunks.chunks_tested)
    }
}

#[cfg(test)]
pub(crate) fn example(chunks_tested: f64) -> Work {
    let chunks = ChunkWork {
        chunks_tested,
        words_read: 2.0,
        block_refreshes: 0.5,
        blocks_visited: 4.0,
        relegations: 3,
        chunks_live: 2,
        populated_pages: 16,
        metadata_bytes: 8192,
    };
    Work {
        chunks: Some(chunks),
        unusable_bytes: Some(12_000),
        bytes_in_use: 65_536,
        bytes_ideal: 64_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_counted_is_left_out() {
        let work = example(1.0);
        let text = serde_json::to_string(&work).unwrap();
        assert!(text.contains("\"chunks_tested\":1.0") && text.contains("\"words_read\":2.0"));
        assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), work);
        let none = Work { chunks: None, unusable_bytes: None, ..work };
        let text = serde_json::to_string(&none).unwrap();
        assert_eq!(text, r#"{"bytes_in_use":65536,"bytes_ideal":64000}"#);
        assert_eq!(serde_json::from_str::<Work>(&text).unwrap(), none);
        assert!((none.memory_ratio() - 1.024).abs() < 1e-9);
    }
}
