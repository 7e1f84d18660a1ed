//! Presets with some of their choices turned around.

use core::marker::PhantomData;

use sheaves_percpu::dynamic::policy::{Defects, EmptyPages, SlotKey};
use sheaves_percpu::dynamic::{Fixed, Policy};

/// The policy `B`, but for the choices whose bits are in `FLIPPED`.
pub(crate) struct But<B: Policy, const FLIPPED: u32>(PhantomData<B>);

/// [`Fixed`] but for some choices.
pub(crate) type FixedBut<const FLIPPED: u32> = But<Fixed, FLIPPED>;

pub(crate) const END_IN_BLOCK: u32 = 1 << 0;
pub(crate) const SCAN_IN_CONTIG: u32 = 1 << 1;
pub(crate) const STALE_STARTS: u32 = 1 << 2;
pub(crate) const RIGHT_FORGOTTEN: u32 = 1 << 3;
pub(crate) const SCAN_NOT_LONGEST: u32 = 1 << 4;
pub(crate) const FREE_BYTES_KEY: u32 = 1 << 5;
pub(crate) const NO_HINTS_USED: u32 = 1 << 6;
pub(crate) const RECOUNT: u32 = 1 << 7;
pub(crate) const OPEN_WINDOW: u32 = 1 << 8;
pub(crate) const WRONG_LENGTH: u32 = 1 << 9;
pub(crate) const NO_OVERLAP: u32 = 1 << 10;
pub(crate) const NO_RELEGATION: u32 = 1 << 11;
pub(crate) const NO_STITCH: u32 = 1 << 12;
pub(crate) const COARSE_LISTS: u32 = 1 << 13;
pub(crate) const TEST_ALL: u32 = 1 << 14;

impl<B: Policy, const FLIPPED: u32> Policy for But<B, FLIPPED> {
    const NAME: &'static str = "variant";
    const SLOT_KEY: SlotKey =
        if FLIPPED & FREE_BYTES_KEY != 0 { SlotKey::FreeBytes } else { B::SLOT_KEY };
    const FINE_LISTS: bool = B::FINE_LISTS && FLIPPED & COARSE_LISTS == 0;
    const UNFIT_MAX: u32 = if FLIPPED & TEST_ALL != 0 { u32::MAX } else { B::UNFIT_MAX };
    const RELEGATE: bool = B::RELEGATE && FLIPPED & NO_RELEGATION == 0;
    const EMPTY_PAGES: EmptyPages =
        if FLIPPED & RECOUNT != 0 { EmptyPages::Recount } else { B::EMPTY_PAGES };
    const SCAN_HINT: bool = B::SCAN_HINT;
    const SKIPPED_AREA: bool = B::SKIPPED_AREA;
    const USE_BLOCK_HINT: bool = B::USE_BLOCK_HINT && FLIPPED & NO_HINTS_USED == 0;
    const USE_CHUNK_HINT: bool = B::USE_CHUNK_HINT && FLIPPED & NO_HINTS_USED == 0;
    const SHRINK_CONTIG: bool = B::SHRINK_CONTIG && FLIPPED & (NO_HINTS_USED | RECOUNT) == 0;
    const STITCH_FREED: bool = B::STITCH_FREED && FLIPPED & NO_STITCH == 0;
    const TAKE_CONTIG: bool = B::TAKE_CONTIG && FLIPPED & NO_HINTS_USED == 0;
    const WORD_SEARCH: bool = B::WORD_SEARCH;
    const LAST_RESORT: bool = B::LAST_RESORT;
    const EXACT_FREED_LENGTH: bool = B::EXACT_FREED_LENGTH && FLIPPED & WRONG_LENGTH == 0;
    const CLAMP_WINDOW: bool = B::CLAMP_WINDOW && FLIPPED & OPEN_WINDOW == 0;
    const OVERLAP: bool = B::OVERLAP && FLIPPED & NO_OVERLAP == 0;
    const DEFECTS: Defects = Defects {
        end_in_block: B::DEFECTS.end_in_block || FLIPPED & END_IN_BLOCK != 0,
        scan_in_contig: B::DEFECTS.scan_in_contig || FLIPPED & SCAN_IN_CONTIG != 0,
        stale_starts: B::DEFECTS.stale_starts || FLIPPED & STALE_STARTS != 0,
        right_forgotten: B::DEFECTS.right_forgotten || FLIPPED & RIGHT_FORGOTTEN != 0,
        scan_not_longest: B::DEFECTS.scan_not_longest || FLIPPED & SCAN_NOT_LONGEST != 0,
    };
}
