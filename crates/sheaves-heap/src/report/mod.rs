//! Statistics of the heap, printed without allocating.
//!
//! The text form has one line per cache that has ever had a slab: `out` objects are in use;
//! `slots`, `depot` and `slabs-free` count the free ones by where they are; `refills` and `flushes`
//! count the moves of objects from and to the slabs. The JSON form has the same figures under
//! stable keys: `{"schema":2,"pid","engine","slot","slots","uptime_ms","totals":{...},
//! "keeper":{...},"limit":{...},"rcu":{...},"percpu":{...},"caches":[{...}]}`.

pub mod rcu;

use core::fmt::{self, Write};

use sheaves_percpu::internal::{EngineMode, SlotKind, facts};
use sheaves_percpu::memory;
use sheaves_rcu::defer;
use sheaves_rcu::internal::keeper;
use sheaves_slab::internal::chunk::{self, Footprint};
use sheaves_slab::internal::limit;
use sheaves_slab::stats::{self, CacheStats, Name};
use sheaves_sys::fork;
use sheaves_sys::report::Line;

use crate::large;

/// Version of the JSON form.
const SCHEMA: u32 = 2;

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
#[non_exhaustive]
pub struct Totals {
    /// Objects and blocks in use, by the size that they occupy.
    pub used_bytes: usize,
    /// Free objects in slots, depots and slabs.
    pub cached_bytes: usize,
    /// Free granules and mappings whose pages have not been returned to the kernel.
    pub dirty_bytes: usize,
    /// Address space of the heap.
    pub heap_bytes: usize,
    /// Of mappings that wait for blocks; part of `dirty_bytes`.
    pub idle_bytes: usize,
    /// Bytes of the blocks with a mapping of their own.
    pub large_bytes: usize,
    /// Number of those blocks.
    pub large_blocks: usize,
    /// Of free slabs, returned to the kernel so far.
    pub purged_bytes: u64,
    /// Returned to the kernel so far: of free slabs, of pages between the objects of used slabs,
    /// and of mappings.
    pub returned_bytes: u64,
    /// Of slabs that were used again after their pages had been returned, so far.
    pub refilled_bytes: u64,
}

/// Computes the sums; takes the lock of each cache in turn.
#[must_use]
pub fn totals() -> Totals {
    let footprint = chunk::footprint();
    let Footprint { mapped_bytes, used_bytes, dirty_bytes, purged_bytes, .. } = footprint;
    let large = large::totals();
    let out_bytes: usize =
        stats::all().map(|(_, stats)| stats.objects_out * stats.stride_bytes).sum();
    Totals {
        used_bytes: out_bytes + large.bytes,
        cached_bytes: used_bytes.saturating_sub(out_bytes),
        dirty_bytes: dirty_bytes + large.idle_bytes,
        heap_bytes: mapped_bytes,
        idle_bytes: large.idle_bytes,
        large_bytes: large.bytes,
        large_blocks: large.blocks,
        purged_bytes,
        returned_bytes: purged_bytes + footprint.holes_bytes + large.returned_bytes,
        refilled_bytes: footprint.refilled_bytes,
    }
}

/// Names of the engine and of the slot numbers in use, for reports.
#[must_use]
pub fn engine_names() -> (&'static str, &'static str) {
    let facts = facts();
    let engine = match facts.mode {
        EngineMode::NotStarted => "none",
        EngineMode::Rseq => "rseq",
        EngineMode::Portable => "portable",
    };
    let slot = match facts.slot_kind {
        SlotKind::MmCid => "cid",
        SlotKind::CpuId => "cpu",
        SlotKind::Virtual => "virtual",
    };
    (engine, slot)
}

/// Prints to a file descriptor. Returns 0, or the value of `errno` for which text is lost.
pub fn print(fd: i32, format: Format) -> i32 {
    write(format, &mut |line| line.flush_to(fd))
}

/// Prints by a function that takes what a line holds, and returns 0 or a value of `errno`. Returns
/// the first that is not 0: then text is lost.
pub fn write(format: Format, flush: &mut Flush<'_>) -> i32 {
    let print = match format {
        Format::Text => print_text,
        Format::Json => print_json,
    };
    Output::print(flush, print)
}

/// Where text goes.
pub type Flush<'a> = dyn FnMut(&mut Line) -> i32 + 'a;

/// Collects text and writes it out when the next piece may not fit.
pub(crate) struct Output<'a> {
    line: Line,
    flush: &'a mut Flush<'a>,
    status: i32,
}

impl<'a> Output<'a> {
    /// The status of what `text` prints.
    pub(crate) fn print(flush: &'a mut Flush<'a>, text: fn(&mut Output<'a>) -> fmt::Result) -> i32 {
        let mut out = Output { line: Line::new(), flush, status: 0 };
        let _ = text(&mut out);
        out.flush();
        out.status
    }

    fn flush(&mut self) {
        let status = (self.flush)(&mut self.line);
        if self.status == 0 {
            self.status = status;
        }
    }

    /// A name that the program has chosen, in a JSON string: quotes and control characters are left
    /// out.
    pub(crate) fn write_name(&mut self, name: &str) -> fmt::Result {
        let is_plain = |c: &char| !c.is_control() && *c != '"' && *c != '\\';
        name.chars().filter(is_plain).try_for_each(|plain| self.write_char(plain))
    }
}

impl Write for Output<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(64) {
            if self.line.as_bytes().len() + piece.len() > 448 {
                self.flush();
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

fn print_text(out: &mut Output<'_>) -> fmt::Result {
    let (engine, slot) = engine_names();
    let (pid, slots) = (sheaves_sys::request::process_id(), facts().slots);
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
    let [used, cached, dirty, heap, large] =
        [t.used_bytes, t.cached_bytes, t.dirty_bytes, t.heap_bytes, t.large_bytes]
            .map(|bytes| bytes / 1024);
    writeln!(
        out,
        "total: {used} KiB used, {cached} KiB cached, {dirty} KiB free runs, {heap} KiB heap, \
         {} large blocks of {large} KiB",
        t.large_blocks
    )?;
    let [purged, returned, refilled] =
        [t.purged_bytes, t.returned_bytes, t.refilled_bytes].map(|bytes| bytes / 1024);
    let deferred = defer::statistics();
    let (looks, busy_ms) = (deferred.keeper_looks, deferred.keeper_busy_us / 1000);
    writeln!(
        out,
        "so far: {returned} KiB returned to the kernel, {purged} KiB of it free slabs, of which \
         {refilled} KiB used again; keeper: {looks} looks in {busy_ms} ms"
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

fn print_json(out: &mut Output<'_>) -> fmt::Result {
    let (engine, slot) = engine_names();
    let (pid, slots) = (sheaves_sys::request::process_id(), facts().slots);
    write!(out, "{{\"schema\":{SCHEMA},\"pid\":{pid},\"engine\":\"{engine}\",")?;
    write!(out, "\"slot\":\"{slot}\",\"slots\":{slots},\"uptime_ms\":{},", fork::age_ms())?;
    let totals = totals();
    write!(out, "\"totals\":{{\"used_bytes\":{}", totals.used_bytes)?;
    print_members!(out, totals, cached_bytes dirty_bytes heap_bytes large_bytes large_blocks
        purged_bytes returned_bytes refilled_bytes);
    write!(out, "}}")?;
    print_keeper_and_rcu(out)?;
    print_percpu(out)?;
    write!(out, ",\"caches\":[")?;
    for (index, (name, stats)) in used_caches().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{{\"name\":\"")?;
        out.write_name(name.as_str())?;
        write!(out, "\"")?;
        print_members!(out, stats, object_bytes stride_bytes objects_out objects_in_slots
            objects_in_depot objects_in_slabs objects_deferred slabs slab_bytes slabs_made
            slabs_released refills flushes depot_hits);
        write!(out, "}}")?;
    }
    writeln!(out, "]}}")
}

fn print_keeper_and_rcu(out: &mut Output<'_>) -> fmt::Result {
    let (rcu, deferred) = (sheaves_rcu::statistics(), defer::statistics());
    let (looks, busy_us) = (deferred.keeper_looks, deferred.keeper_busy_us);
    let is_armed = keeper::is_armed();
    write!(out, ",\"keeper\":{{\"looks\":{looks},\"busy_us\":{busy_us}")?;
    write!(out, ",\"is_armed\":{is_armed}}}")?;
    write!(out, ",\"limit\":{{\"bytes\":")?;
    match limit::bytes() {
        None => write!(out, "null")?,
        Some(bytes) => write!(out, "{bytes}")?,
    }
    write!(out, ",\"is_near\":{}}}", limit::is_near())?;
    let pending = deferred.pending();
    write!(out, ",\"rcu\":{{\"deferred_objects\":{}", pending.objects)?;
    write!(out, ",\"deferred_bytes\":{}", pending.bytes)?;
    print_members!(out, rcu, grace_periods membarriers records readers_fence);
    print_members!(out, deferred, oldest_age_ms grace_periods_asked calls_run);
    write!(out, "}}")
}

/// Per-CPU memory: objects that exist, and bytes for the objects of each slot.
fn print_percpu(out: &mut Output<'_>) -> fmt::Result {
    let Some(memory) = memory::statistics() else { return write!(out, ",\"percpu\":null") };
    let objects = memory.allocator.objects();
    write!(out, ",\"percpu\":{{\"objects\":{objects}")?;
    print_members!(out, memory.allocator, populated_pages empty_pages);
    print_members!(out, memory, slots_used committed_bytes row_bytes);
    write!(out, "}}")
}
