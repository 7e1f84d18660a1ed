//! What the allocator does differently from one generation to the next, as compile-time choices.
//!
//! The library uses [`Fixed`]. [`V50`] and [`V52`] are the algorithm before and after the changes
//! of 2019 that made it fast; they exist to be raced against [`Fixed`] on the same maps, the same
//! backing and the same lock. A test may combine choices freely: whatever the combination, the
//! allocator stays inside its memory; what it hands out is right only as far as the choices are.
//!
//! # The changes
//!
//! | change | [`Policy`]'s choice | V50 | V52 | Fixed |
//! |---|---|---|---|---|
//! | a freed run is entered with its own length | `EXACT_FREED_LENGTH` | yes | yes | yes |
//! | a search ends where its chunk ends | `CLAMP_WINDOW` | yes | yes | yes |
//! | every area that overlaps a hint breaks it | `OVERLAP` | yes | yes | yes |
//! | lists by longest run, not by free bytes | `SLOT_KEY` | bytes | run | run |
//! | four lists for each power of two | `FINE_LISTS` | no | no | yes |
//! | so many unfit chunks of a list are tested | `UNFIT_MAX` | all | all | 8 |
//! | chunks of unfit small holes leave the search | `RELEGATE` | no | yes | yes |
//! | empty pages are counted as they change | `EMPTY_PAGES` | recount | delta | delta |
//! | the longest run before the longest is known | `SCAN_HINT` | no | yes | yes |
//! | the longest run that was skipped is noted | `SKIPPED_AREA` | no | yes | no |
//! | work in a block begins after its scan hint | `USE_BLOCK_HINT` | no | yes | yes |
//! | the same in a chunk, block by block | `USE_CHUNK_HINT` | no | yes | yes |
//! | an area at the edge of contig only shrinks it | `SHRINK_CONTIG` | no | no | yes |
//! | freed runs are joined across blocks | `STITCH_FREED` | no | no | yes |
//! | where only contig fits it is taken unseen | `TAKE_CONTIG` | no | no | yes |
//! | searches of the map test words, not holes | `WORD_SEARCH` | no | no | yes |
//! | a search without hints precedes refusal | `LAST_RESORT` | no | no | yes |
//!
//! [`Fixed`] does not note skipped runs: its scan hint is exact or unset, and a run that was
//! skipped on the way to a hole says nothing of the runs behind that hole.
//!
//! # The defects
//!
//! Each is a choice as well, of [`Policy`] or [`Defects`], so that a test can show that it is
//! noticed.
//!
//! | label | defect | choice | V50 | V52 | Fixed |
//! |---|---|---|---|---|---|
//! | P-a | freed run enters its chunk with its end in the block | `end_in_block` | no | no | no |
//! | P-b | scan hint survives inside the run that became contig | `scan_in_contig` | - | yes | no |
//! | P-c | dropped hint keeps its start | `stale_starts` | - | yes | no |
//! | P-d | refresh from the scan hint forgets the right run | `right_forgotten` | - | yes | no |
//! | P-d2 | a longer run lies before the scan hint | `scan_not_longest` | - | yes | no |
//! | P-g | lists by free bytes | `SLOT_KEY` | yes | no | no |
//! | P-h | every search begins at the first free bit | `USE_*_HINT` | yes | no | no |
//! | P-i | empty pages are recounted by full scans | `EMPTY_PAGES` | yes | no | no |
//! | P-j | a search goes on beyond its chunk | `CLAMP_WINDOW` | no | no | no |
//! | P-k | freed run enters with its block's contig length | `EXACT_FREED_LENGTH` | no | no | no |
//!
//! Two more of the same family have no counterpart in user space and so no choice. P-e, pages given
//! back without flushing the processors' address translations: here the kernel flushes, as part
//! of the system call that gives pages back. P-f, a threshold for giving back that was withdrawn
//! because it cost an unrelated benchmark time: it was never part of the algorithm.
//!
//! # What each preset promises
//!
//! | | V50 | V52 | Fixed |
//! |---|---|---|---|
//! | contig hint of a block | exact | never too large | exact |
//! | left run of a block, first free bit | exact | exact | exact |
//! | right run of a block | exact | never too large | exact |
//! | scan hint of a block | unused | a free run | longest run before contig, or unset |
//! | contig hint of a chunk | never too large, exact after a refresh | never too large | exact |
//! | scan hint of a chunk | unused | a free run | longest run before contig, or unset |
//! | empty pages of a chunk | never too few, exact after a refresh | exact | exact |
//! | free bytes, lists, boundary map | exact | exact | exact |

/// The number by which chunks are kept in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKey {
    /// All free bytes of the chunk, usable or not.
    FreeBytes,
    /// The longest free run of the chunk.
    Contig,
}

/// How populated pages without an object are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyPages {
    /// By walking all blocks of a chunk whenever its hints are refreshed.
    Recount,
    /// By the blocks that an operation fills or empties.
    Delta,
}

/// Defects that can be switched on; see the table in [`crate::dynamic::policy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defects {
    /// P-a.
    pub end_in_block: bool,
    /// P-b.
    pub scan_in_contig: bool,
    /// P-c.
    pub stale_starts: bool,
    /// P-d.
    pub right_forgotten: bool,
    /// P-d2.
    pub scan_not_longest: bool,
}

impl Defects {
    /// None of them.
    pub const NONE: Defects = Defects {
        end_in_block: false,
        scan_in_contig: false,
        stale_starts: false,
        right_forgotten: false,
        scan_not_longest: false,
    };
}

/// Choices that make one generation of the allocator; all of them are settled at compile time.
pub trait Policy: 'static {
    /// Name in reports.
    const NAME: &'static str;
    /// What the lists of chunks are ordered by.
    const SLOT_KEY: SlotKey;
    /// Each power of two of the key has four lists, and small keys have one each.
    const FINE_LISTS: bool;
    /// After so many chunks of one list that do not fit, a request goes on to the next list; the
    /// chunks go to their list's tail.
    const UNFIT_MAX: u32;
    /// A chunk in one of the lists of small runs that does not fit is not tried again until
    /// something in it is freed.
    const RELEGATE: bool;
    /// How empty pages are counted.
    const EMPTY_PAGES: EmptyPages;
    /// Spans keep a scan hint.
    const SCAN_HINT: bool;
    /// The longest run that a search skipped becomes a candidate for the scan hint.
    const SKIPPED_AREA: bool;
    /// Searches in a block and its refreshes use the scan hint.
    const USE_BLOCK_HINT: bool;
    /// Searches in a chunk and its refreshes use the scan hint.
    const USE_CHUNK_HINT: bool;
    /// An area at an end of the longest run, when nothing can lie after that run, changes the
    /// hints without reading the map. Needs scan hints that are exact.
    const SHRINK_CONTIG: bool;
    /// What is freed is entered into the chunk as the whole run that it became part of.
    const STITCH_FREED: bool;
    /// When no run before the longest one can fit, the area is taken from the longest one
    /// without reading the map. Needs scan hints that are exact.
    const TAKE_CONTIG: bool;
    /// A search of the map tests all places in a word at once, not one hole after another; it
    /// does not see what it skips.
    const WORD_SEARCH: bool;
    /// Before a request is refused, every chunk whose longest run is long enough is searched
    /// from end to end.
    const LAST_RESORT: bool;
    /// A freed run is entered with its own length; if not, P-k.
    const EXACT_FREED_LENGTH: bool;
    /// The search window ends with the chunk; if not, P-j.
    const CLAMP_WINDOW: bool;
    /// A hint is broken by every area that overlaps it, not only by one that begins in it.
    const OVERLAP: bool;
    /// Defects that are switched on.
    const DEFECTS: Defects;
}

/// The algorithm before the changes of 2019.
#[derive(Debug, Clone, Copy)]
pub enum V50 {}

/// The algorithm with the changes of 2019, as they were made.
#[derive(Debug, Clone, Copy)]
pub enum V52 {}

/// The library's own: every known defect fixed, all hints exact.
#[derive(Debug, Clone, Copy)]
pub enum Fixed {}

impl Policy for V50 {
    const NAME: &'static str = "V50";
    const SLOT_KEY: SlotKey = SlotKey::FreeBytes;
    const FINE_LISTS: bool = false;
    const UNFIT_MAX: u32 = u32::MAX;
    const RELEGATE: bool = false;
    const EMPTY_PAGES: EmptyPages = EmptyPages::Recount;
    const SCAN_HINT: bool = false;
    const SKIPPED_AREA: bool = false;
    const USE_BLOCK_HINT: bool = false;
    const USE_CHUNK_HINT: bool = false;
    const SHRINK_CONTIG: bool = false;
    const STITCH_FREED: bool = false;
    const TAKE_CONTIG: bool = false;
    const WORD_SEARCH: bool = false;
    const LAST_RESORT: bool = false;
    const EXACT_FREED_LENGTH: bool = true;
    const CLAMP_WINDOW: bool = true;
    const OVERLAP: bool = true;
    const DEFECTS: Defects = Defects::NONE;
}

impl Policy for V52 {
    const NAME: &'static str = "V52";
    const SLOT_KEY: SlotKey = SlotKey::Contig;
    const FINE_LISTS: bool = false;
    const UNFIT_MAX: u32 = u32::MAX;
    const RELEGATE: bool = true;
    const EMPTY_PAGES: EmptyPages = EmptyPages::Delta;
    const SCAN_HINT: bool = true;
    const SKIPPED_AREA: bool = true;
    const USE_BLOCK_HINT: bool = true;
    const USE_CHUNK_HINT: bool = true;
    const SHRINK_CONTIG: bool = false;
    const STITCH_FREED: bool = false;
    const TAKE_CONTIG: bool = false;
    const WORD_SEARCH: bool = false;
    const LAST_RESORT: bool = false;
    const EXACT_FREED_LENGTH: bool = true;
    const CLAMP_WINDOW: bool = true;
    const OVERLAP: bool = true;
    const DEFECTS: Defects = Defects {
        end_in_block: false,
        scan_in_contig: true,
        stale_starts: true,
        right_forgotten: true,
        scan_not_longest: true,
    };
}

impl Policy for Fixed {
    const NAME: &'static str = "FIXED";
    const SLOT_KEY: SlotKey = SlotKey::Contig;
    const FINE_LISTS: bool = true;
    const UNFIT_MAX: u32 = 8;
    const RELEGATE: bool = true;
    const EMPTY_PAGES: EmptyPages = EmptyPages::Delta;
    const SCAN_HINT: bool = true;
    const SKIPPED_AREA: bool = false;
    const USE_BLOCK_HINT: bool = true;
    const USE_CHUNK_HINT: bool = true;
    const SHRINK_CONTIG: bool = true;
    const STITCH_FREED: bool = true;
    const TAKE_CONTIG: bool = true;
    const WORD_SEARCH: bool = true;
    const LAST_RESORT: bool = true;
    const EXACT_FREED_LENGTH: bool = true;
    const CLAMP_WINDOW: bool = true;
    const OVERLAP: bool = true;
    const DEFECTS: Defects = Defects::NONE;
}
