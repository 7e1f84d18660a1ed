//! Statistics of the heap, printed without allocating.
//!
//! The text form has one line per cache that has ever had a slab: `out` objects are in use;
//! `slots`, `depot` and `slabs-free` count the free ones by where they are; `refills` and `flushes`
//! count the moves of objects from and to the slabs. The JSON form has the same figures under
//! stable keys: `{"schema":1,"pid","engine","slot","slots","totals":{...},"caches":[{...}]}`.

use core::fmt::{self, Write};

use sheaves_percpu::internal::{Mode, SlotKind, facts};
use sheaves_slab::chunk::{self, Footprint};
use sheaves_slab::stats::{self, CacheStats, Name};
use sheaves_sys::report::Line;

use crate::huge;

/// Version of the JSON form.
const SCHEMA: u32 = 1;

/// How to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For humans.
    Text,
    /// For programs.
    Json,
}

/// Sums over the whole heap, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Objects and blocks in use, by the size that they occupy.
    pub used_bytes: usize,
    /// Free objects in slots, depots and slabs.
    pub cached_bytes: usize,
    /// Free granules and mappings whose pages have not been returned to the kernel.
    pub dirty_bytes: usize,
    /// Address space of the heap.
    pub heap_bytes: usize,
    /// Bytes of the blocks with a mapping of their own.
    pub huge_bytes: usize,
    /// Number of those blocks.
    pub huge_blocks: usize,
}

/// Computes the sums; takes the lock of each cache in turn.
#[must_use]
pub fn totals() -> Totals {
    let Footprint { mapped_bytes, used_bytes, dirty_bytes } = chunk::footprint();
    let (huge_blocks, huge_bytes, idle_bytes) = huge::totals();
    let out_bytes: usize =
        stats::all().map(|(_, stats)| stats.objects_out * stats.stride_bytes).sum();
    Totals {
        used_bytes: out_bytes + huge_bytes,
        cached_bytes: used_bytes.saturating_sub(out_bytes),
        dirty_bytes: dirty_bytes + idle_bytes,
        heap_bytes: mapped_bytes,
        huge_bytes,
        huge_blocks,
    }
}

/// Names of the engine and of the slot numbers in use, for reports.
#[must_use]
pub fn engine_names() -> (&'static str, &'static str) {
    let facts = facts();
    let engine = match facts.mode {
        Mode::NotStarted => "none",
        Mode::Rseq => "rseq",
        Mode::Portable => "portable",
    };
    let slot = match facts.slot_kind {
        SlotKind::MmCid => "cid",
        SlotKind::CpuId => "cpu",
        SlotKind::Virtual => "virtual",
    };
    (engine, slot)
}

/// Prints to a file descriptor. Text that the descriptor does not accept is lost.
pub fn print(fd: i32, format: Format) {
    let mut out = Output::new(fd);
    let _ = match format {
        Format::Text => print_text(&mut out),
        Format::Json => print_json(&mut out),
    };
    out.flush();
}

/// Collects text and writes it out when the next piece may not fit.
pub(crate) struct Output {
    fd: i32,
    line: Line,
}

impl Output {
    pub(crate) fn new(fd: i32) -> Output {
        Output { fd, line: Line::new() }
    }

    pub(crate) fn flush(&mut self) {
        self.line.flush_to(self.fd);
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(64) {
            if self.line.as_bytes().len() + piece.len() > 448 {
                self.line.flush_to(self.fd);
            }
            let piece = core::str::from_utf8(piece).unwrap_or("?");
            self.line.write_str(piece)?;
        }
        Ok(())
    }
}

/// Caches that have had a slab, with their statistics.
fn used_caches() -> impl Iterator<Item = (Name, CacheStats)> {
    stats::all().filter(|(_, stats)| stats.slabs_made > 0)
}

fn print_text(out: &mut Output) -> fmt::Result {
    let (engine, slot) = engine_names();
    let (pid, slots) = (sheaves_sys::process::id(), facts().slots);
    writeln!(out, "sheaves statistics: pid {pid}, engine {engine}, {slots} slots by {slot}")?;
    writeln!(out, "{TEXT_HEAD}")?;
    for (name, stats) in used_caches() {
        let (name, kib) = (name.as_str(), stats.slab_bytes / 1024);
        let CacheStats { object_bytes, objects_out, slabs, refills, flushes, .. } = stats;
        let (slots, depot) = (stats.objects_in_slots, stats.objects_in_depot);
        let free = stats.objects_in_slabs;
        writeln!(
            out,
            "{name:<16} {object_bytes:>7} {objects_out:>9} {slots:>7} {depot:>7} {free:>9} \
             {slabs:>6} {kib:>9} {refills:>8} {flushes:>8}"
        )?;
    }
    let t = totals();
    let [used, cached, dirty, heap, huge] =
        [t.used_bytes, t.cached_bytes, t.dirty_bytes, t.heap_bytes, t.huge_bytes]
            .map(|bytes| bytes / 1024);
    writeln!(
        out,
        "total: {used} KiB used, {cached} KiB cached, {dirty} KiB free runs, {heap} KiB heap, \
         {} huge blocks of {huge} KiB",
        t.huge_blocks
    )
}

const TEXT_HEAD: &str = concat!(
    "cache               size       out   slots   depot slabs-free",
    "  slabs       KiB  refills  flushes"
);

/// Prints fields as further members of a JSON object.
macro_rules! print_members {
    ($out:expr, $from:expr, $($field:ident)*) => {
        $(write!($out, ",\"{}\":{}", stringify!($field), $from.$field)?;)*
    };
}

fn print_json(out: &mut Output) -> fmt::Result {
    let (engine, slot) = engine_names();
    let (pid, slots) = (sheaves_sys::process::id(), facts().slots);
    write!(out, "{{\"schema\":{SCHEMA},\"pid\":{pid},\"engine\":\"{engine}\",")?;
    write!(out, "\"slot\":\"{slot}\",\"slots\":{slots},")?;
    let totals = totals();
    write!(out, "\"totals\":{{\"used_bytes\":{}", totals.used_bytes)?;
    print_members!(out, totals, cached_bytes dirty_bytes heap_bytes huge_bytes huge_blocks);
    write!(out, "}},\"caches\":[")?;
    for (index, (name, stats)) in used_caches().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        // Programs choose the names of caches: quotes and control characters are left out.
        write!(out, "{comma}{{\"name\":\"")?;
        for plain in name.as_str().chars().filter(|c| !c.is_control() && *c != '"' && *c != '\\') {
            write!(out, "{plain}")?;
        }
        write!(out, "\"")?;
        print_members!(out, stats, object_bytes stride_bytes objects_out objects_in_slots
            objects_in_depot objects_in_slabs slabs slab_bytes slabs_made slabs_released refills
            flushes depot_hits);
        write!(out, "}}")?;
    }
    writeln!(out, "]}}")
}
