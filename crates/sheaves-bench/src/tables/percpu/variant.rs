//! The variants of `percpu`: what filters take, in chunks of which size, zeroed in how many slots.

use super::slot_memory::SlotMemory;
use sheaves_history::cpu::slot_count;

/// Size and alignment of an object, in bytes.
pub(crate) type Shape = (usize, usize);

/// What a filter takes, and what is done with filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Tc,
    TcPacked,
    Control,
    Churn,
    Concurrent,
    ConcurrentPair,
}

impl Pattern {
    pub(crate) const ALL: [Pattern; 6] = [
        Pattern::Tc,
        Pattern::TcPacked,
        Pattern::Control,
        Pattern::Churn,
        Pattern::Concurrent,
        Pattern::ConcurrentPair,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Pattern::Tc => "tc",
            Pattern::TcPacked => "tc-packed",
            Pattern::Control => "control",
            Pattern::Churn => "churn",
            Pattern::Concurrent => "concurrent",
            Pattern::ConcurrentPair => "concurrent-pair",
        }
    }

    pub(crate) fn is_concurrent(self) -> bool {
        matches!(self, Pattern::Concurrent | Pattern::ConcurrentPair)
    }

    /// The objects of a filter, in the order of their allocation.
    pub(crate) fn objects(self) -> &'static [Shape] {
        match self {
            Pattern::Tc | Pattern::Churn => &[(16, 16), (16, 16), (20, 4)],
            Pattern::TcPacked => &[(12, 4), (12, 4), (20, 4)],
            Pattern::Control => &[(16, 4)],
            Pattern::Concurrent | Pattern::ConcurrentPair => &[(8, 8), (16, 8), (24, 8), (32, 8)],
        }
    }

    /// Bytes of a filter's objects in one slot, where those of one size lie side by side.
    pub(crate) fn objects_bytes(self) -> usize {
        self.objects().iter().map(|(size, align)| size.next_multiple_of(*align)).sum()
    }

    /// Bytes of a filter in one slot, where its objects lie side by side: with the holes that
    /// alignment forces between them.
    pub(crate) fn filter_bytes(self) -> usize {
        let mut end = 0_usize;
        for (size, align) in self.objects() {
            end = end.next_multiple_of(*align) + size;
        }
        // The next filter begins with the first object again.
        end.next_multiple_of(self.objects()[0].1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) pattern: Pattern,
    /// Bytes of a chunk in one slot.
    pub(crate) unit_bytes: usize,
    /// Slots in which objects are zeroed; 0: objects are not zeroed.
    pub(crate) slots: usize,
    /// Threads of the concurrent patterns, else 1.
    pub(crate) threads: usize,
}

const UNITS_KIB: [usize; 3] = [32, 64, 256];
/// The chunks of the concurrent patterns, in KiB: the library's.
const UNIT_KIB_CONCURRENT: usize = 64;

impl Variant {
    pub(crate) fn new(pattern: Pattern, unit_kib: usize, slots: usize) -> Variant {
        Variant { pattern, unit_bytes: unit_kib << 10, slots, threads: 1 }
    }

    /// All but the concurrent ones: not zeroed, and zeroed in each of these numbers of slots.
    pub(crate) fn all(slots: &[usize]) -> Vec<Variant> {
        let patterns = Pattern::ALL.into_iter().filter(|p| !p.is_concurrent());
        let mut all = Vec::new();
        for pattern in patterns {
            for unit_kib in UNITS_KIB {
                all.push(Variant::new(pattern, unit_kib, 0));
                all.extend(slots.iter().map(|slots| Variant::new(pattern, unit_kib, *slots)));
            }
        }
        all
    }

    /// A concurrent pattern with `threads` threads, on the slots of this machine.
    pub(crate) fn concurrent(pattern: Pattern, threads: usize) -> Variant {
        Variant { threads, ..Variant::new(pattern, UNIT_KIB_CONCURRENT, slot_count()) }
    }

    /// Its name without the number of filters: `tc/64k-zeroed-8`, `concurrent/2t`.
    pub(crate) fn name(&self) -> String {
        let (pattern, unit_kib) = (self.pattern.name(), self.unit_bytes >> 10);
        match (self.pattern.is_concurrent(), self.slots) {
            (true, _) => format!("{pattern}/{}t", self.threads),
            (_, 0) => format!("{pattern}/{unit_kib}k"),
            (_, slots) => format!("{pattern}/{unit_kib}k-zeroed-{slots}"),
        }
    }

    /// Bytes of one slot that `filters` filters need, also where sizes are rounded up to powers of
    /// two, and with what random deletion leaves unused.
    pub(crate) fn row_bytes(&self, filters: usize) -> usize {
        let powers = self.pattern.objects().iter().map(|(size, _)| size.next_power_of_two());
        let bytes = filters * self.pattern.filter_bytes().max(powers.sum());
        if self.pattern == Pattern::Churn { bytes + bytes / 4 } else { bytes }
    }

    /// Bytes of one slot that `filters` filters need at least.
    pub(crate) fn bytes_ideal(&self, by_size: bool, filters: usize) -> u64 {
        let pattern = self.pattern;
        let bytes = if by_size { pattern.objects_bytes() } else { pattern.filter_bytes() };
        (filters * bytes) as u64
    }

    pub(crate) fn slot_memory(&self, filters: usize) -> SlotMemory {
        SlotMemory::new(self.slots, self.unit_bytes, self.row_bytes(filters))
    }
}
