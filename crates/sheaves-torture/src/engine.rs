//! The engine of the transactions, in words for reports.

use sheaves_percpu::internal::{EngineMode, SlotKind, facts};

pub(crate) fn describe() -> String {
    let facts = facts();
    let slots = match facts.slot_kind {
        SlotKind::MmCid => "by mm_cid",
        SlotKind::CpuId => "by cpu_id",
        SlotKind::Virtual => "virtual",
    };
    let mode = if facts.mode == EngineMode::Portable { "portable" } else { "rseq" };
    format!("{mode}, {} slots {slots}", facts.slots)
}
