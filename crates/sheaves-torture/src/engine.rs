//! The engine of the transactions, in words for reports.

use sheaves_percpu::engine::{self, Mode, SlotKind};

pub(crate) fn describe() -> String {
    let facts = engine::facts();
    let slots = match facts.slot_kind {
        SlotKind::ConcurrencyId => "by concurrency id",
        SlotKind::Processor => "by processor",
        SlotKind::Virtual => "virtual",
    };
    let mode = if facts.mode == Mode::Portable { "portable" } else { "rseq" };
    format!("{mode}, {} slots {slots}", facts.slots)
}
