//! What a contender of `percpu` did, in numbers that are the same on every machine.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sheaves_percpu::internal::dynamic::{Counters, PAGE_BYTES};

use super::variant::Variant;
use crate::harness::{Figure, Report, align_numbers, new_table, number};

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

/// What an allocator did that works with chunks: as a contender tells it, so far and all together;
/// as the work of a sample, of that sample and per allocation, where the field says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChunkWork {
    #[serde(skip)]
    pub(crate) allocations: u64,
    pub(crate) chunks_tested: f64,
    pub(crate) words_read: f64,
    pub(crate) block_refreshes: f64,
    /// Blocks that were visited to find the hints of chunks anew, per allocation.
    pub(crate) blocks_visited: f64,
    pub(crate) relegations: u64,
    pub(crate) chunks_live: u64,
    pub(crate) populated_pages: u64,
    /// Bytes of metadata at the end; they exist once, not in each slot.
    pub(crate) metadata_bytes: u64,
}

/// The library's counts, so far.
pub(super) fn done_by(counters: Counters) -> ChunkWork {
    ChunkWork {
        chunks_tested: counters.chunks_tested as f64,
        words_read: counters.words_read as f64,
        block_refreshes: counters.page_refreshes as f64,
        blocks_visited: counters.pages_refreshed as f64,
        relegations: counters.relegations,
        ..ChunkWork::default()
    }
}

impl ChunkWork {
    fn since(&self, before: &ChunkWork) -> ChunkWork {
        let allocations = (self.allocations - before.allocations).max(1);
        let each = |of: fn(&ChunkWork) -> f64| (of(self) - of(before)) / allocations as f64;
        ChunkWork {
            allocations: 0,
            chunks_tested: each(|work| work.chunks_tested),
            words_read: each(|work| work.words_read),
            block_refreshes: each(|work| work.block_refreshes),
            blocks_visited: each(|work| work.blocks_visited),
            relegations: self.relegations - before.relegations,
            ..*self
        }
    }
}

impl Work {
    /// Of a contender without chunks, so far.
    pub(crate) fn of_bytes(bytes_in_use: u64) -> Work {
        Work { chunks: None, unusable_bytes: None, bytes_in_use, bytes_ideal: 0 }
    }

    /// Of one with chunks, so far.
    pub(crate) fn of_chunks(chunks: ChunkWork) -> Work {
        let bytes_in_use = chunks.populated_pages * PAGE_BYTES as u64;
        Work { chunks: Some(chunks), ..Work::of_bytes(bytes_in_use) }
    }

    /// What was done after `before`, when the contender itself held `held_bytes`, and what it has
    /// now; the objects need `bytes_ideal`. Contenders of one library count all that it holds.
    pub(crate) fn since(self, before: &Work, held_bytes: u64, bytes_ideal: u64) -> Work {
        let bytes_in_use = self.bytes_in_use + held_bytes - before.bytes_in_use;
        let mut chunks = self.chunks.zip(before.chunks.as_ref()).map(|(now, b)| now.since(b));
        chunks.iter_mut().for_each(|is| is.populated_pages = bytes_in_use / PAGE_BYTES as u64);
        Work { chunks, bytes_in_use, bytes_ideal, ..self }
    }

    pub(crate) fn to_json(&self) -> Value {
        // Numbers under names cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }

    pub(crate) fn from_json(json: &Value) -> Option<Work> {
        serde_json::from_value(json.clone()).ok()
    }

    pub(crate) fn memory_ratio(&self) -> f64 {
        self.bytes_in_use as f64 / self.bytes_ideal as f64
    }

    pub(crate) fn chunks_tested(&self) -> Option<f64> {
        self.chunks.as_ref().map(|chunks| chunks.chunks_tested)
    }
}

/// What was done, as tables: one for each heading. Where zeroing makes no difference to what was
/// done, it is told once. `variants` are all that rows can have.
pub(super) fn tables(report: &Report, variants: &[Variant]) -> String {
    let mut text = String::new();
    for heading in report.headings() {
        let variant = variants.iter().find(|variant| variant.name() == heading);
        let plain = variant.filter(|variant| variant.slots > 0);
        let plain = plain.map(|variant| Variant { slots: 0, ..*variant }.name());
        let rows = report.rows.iter().filter(|row| row.shown.heading == heading);
        let rows = rows.filter_map(|row| Some((row, Work::from_json(row.work.as_ref()?)?)));
        let (known, rows): (Vec<_>, Vec<_>) = rows.partition(|(row, work)| {
            let plain = plain.as_ref().and_then(|plain| {
                let is_it = |other: &&Figure| {
                    other.shown.heading == *plain
                        && other.shown.size == row.shown.size
                        && other.contender == row.contender
                };
                Work::from_json(report.rows.iter().find(is_it)?.work.as_ref()?)
            });
            plain.as_ref() == Some(work)
        });
        let others = match plain {
            Some(plain) if !known.is_empty() => format!("; others as with {plain}"),
            _ => String::new(),
        };
        if !rows.is_empty() {
            let table = table(&rows);
            text.push_str(&format!("\n{heading}: what was done{others}\n{table}\n"));
        }
    }
    if !text.is_empty() {
        text.push_str(
            "\nPer allocation: chunks tested, words of bitmaps read, blocks refreshed, blocks\n\
             visited by refreshes of chunks. At the end: chunks relegated and live, populated\n\
             pages, free bytes that fit nothing, bytes in use, and these to what the objects\n\
             need with the holes that alignment forces. Pages and bytes are those of one slot.\n",
        );
    }
    text
}

fn table(rows: &[(&Figure, Work)]) -> comfy_table::Table {
    let mut table = new_table();
    table.set_header([
        "",
        "filters",
        "tested",
        "words",
        "refreshed",
        "visited",
        "relegated",
        "chunks",
        "pages",
        "unusable",
        "in use",
        "ratio",
    ]);
    for (row, work) in rows {
        let filters = row.shown.size.map_or("-".into(), |filters| filters.to_string());
        let mut line = vec![row.contender.clone(), filters];
        match &work.chunks {
            Some(chunks) => {
                line.push(format!("{:.3}", chunks.chunks_tested));
                line.extend(
                    [chunks.words_read, chunks.block_refreshes, chunks.blocks_visited].map(number),
                );
                line.extend(
                    [chunks.relegations, chunks.chunks_live, chunks.populated_pages]
                        .map(|count| count.to_string()),
                );
            }
            None => line.extend(core::iter::repeat_n("-".to_owned(), 7)),
        }
        line.push(work.unusable_bytes.map_or("-".into(), |bytes| bytes.to_string()));
        line.push(work.bytes_in_use.to_string());
        line.push(format!("{:.3}", work.memory_ratio()));
        table.add_row(line);
    }
    align_numbers(&mut table, 1);
    table
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_work.rs"]
mod tests;
