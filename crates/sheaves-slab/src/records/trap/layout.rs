//! The pool and the records of traps, as they are in memory and in a core dump.
//!
//! The pool is one mapping, in which each place's pages are between two inaccessible ones:
//!
//! ```text
//!   | page | place 0 | page | place 1 | page | ... | place 255 | page |
//! ```
//!
//! So the kernel never has more than 2 * 256 + 1 mappings for it. The records are in another
//! mapping: a head of [`RECORDS_AT`] words, with the state of each place, and a record for each.
//! Everything is a number of 64 bits. Where the pool is, and what happened, is in the head:
//!
//! | word | what |
//! |---|---|
//! | 0, 1 | [`MAGIC`] |
//! | 2, 3, 4 | the pool's address, bytes of a page, bytes of a place without the page |
//! | 5, 6, 7 | the last error: a [`Misuse`] plus one, the address, the time in ms |
//! | [`STATES_AT`] on | the state of each place |

use core::fmt::{self, Display};

/// Places of the pool.
pub const PLACES: usize = 256;
/// The first two words of the head.
pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"SHEAVES:"), u64::from_le_bytes(*b"GUARDED1")];
/// Index of the first state.
pub const STATES_AT: usize = 16;
/// Index of the first record.
pub const RECORDS_AT: usize = 512;
/// Words of a record.
pub const RECORD_WORDS: usize = 88;
/// Words of the head and all records.
pub const WORDS: usize = RECORDS_AT + PLACES * RECORD_WORDS;
/// The most addresses of a stack.
pub const FRAMES_MAX: usize = 24;

pub(super) const POOL: usize = MAGIC.len();
pub(super) const ERROR: usize = 5;

/// Indexes in a record.
pub(super) const ADDRESS: usize = 0;
pub(super) const BYTES: usize = 1;
pub(super) const OBJECT: usize = 2;
pub(super) const CACHE: usize = 3;
pub(super) const NAME: usize = 4;
const NAME_WORDS: usize = 4;
pub(super) const EVENT_WORDS: usize = 2 + FRAMES_MAX;
/// Indexes of the first words of the events.
pub(super) const ALLOC: usize = NAME + NAME_WORDS;
pub(super) const DEFERRAL: usize = ALLOC + EVENT_WORDS;
pub(super) const FREE: usize = DEFERRAL + EVENT_WORDS;

const _: () = assert!(FREE + EVENT_WORDS <= RECORD_WORDS && STATES_AT + PLACES <= RECORDS_AT);

/// What a place's state says of its block. The state is the word's low 8 bits; the rest is a number
/// that grows with each change of any place.
///
/// | state | block | the place's pages | transitions |
/// |---|---|---|---|
/// | `Unused` | none yet | inaccessible | -> `Changing`, by an allocation |
/// | `Changing` | is allocated or freed | owned by one thread | -> `Allocated`, `Freed`, back |
/// | `Allocated` | allocated | accessible | -> `Deferred`; -> `Changing`, by a free |
/// | `Deferred` | freed after a grace period | accessible | -> `Changing`, after it |
/// | `Freed` | freed | inaccessible | -> `Changing`, by an allocation, which takes the oldest |
///
/// All are made by atomic exchanges. In the child of a fork a place that another thread was
/// changing stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table above says what they mean")]
pub enum State {
    Unused = 0,
    Changing = 1,
    Allocated = 2,
    Deferred = 3,
    Freed = 4,
}

impl State {
    /// The state in a word.
    #[must_use]
    pub fn of(word: u64) -> State {
        use State::{Allocated, Changing, Deferred, Freed, Unused};
        let all = [Unused, Changing, Allocated, Deferred, Freed];
        all.get((word & 0xff) as usize).copied().unwrap_or(Unused)
    }
}

/// Where the pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The address of the pool.
    pub base: usize,
    /// Bytes of an inaccessible page.
    pub page: usize,
    /// Bytes of a place, without the pages around it.
    pub body: usize,
}

impl Geometry {
    /// What a head says. `None` if it is none.
    #[must_use]
    pub fn of_head(head: &[u64]) -> Option<Geometry> {
        let [base, page, body] = *head.get(POOL..POOL + 3)?.as_array::<3>()?;
        let is_right =
            head[..2] == MAGIC && page.is_power_of_two() && (page..1 << 20).contains(&body);
        let [base, page, body] = [base, page, body].map(|number| number as usize);
        is_right.then_some(Geometry { base, page, body })
    }

    /// Bytes of the pool.
    #[must_use]
    pub const fn bytes(self) -> usize {
        PLACES * (self.page + self.body) + self.page
    }

    /// First address of a place.
    #[must_use]
    pub const fn place(self, index: usize) -> usize {
        self.base + index * (self.page + self.body) + self.page
    }

    /// True for addresses of the pool.
    #[must_use]
    pub const fn contains(self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.bytes()
    }

    /// The place that has an address; `None` for addresses in pages between places, and others.
    #[must_use]
    pub fn place_of(self, address: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        let is_in_place = offset < self.bytes() && offset % (self.page + self.body) >= self.page;
        is_in_place.then(|| offset / (self.page + self.body))
    }

    /// The places on both sides of the page that has an address, or the place that has it.
    fn neighbours(self, address: usize) -> [Option<usize>; 2] {
        let after = address.wrapping_sub(self.base) / (self.page + self.body);
        match self.place_of(address) {
            Some(place) => [Some(place), None],
            None => [after.checked_sub(1), Some(after).filter(|place| *place < PLACES)],
        }
    }

    /// Explains an access that has failed at an address of the pool, by the record of a place: the
    /// first of `records`, which `read` fills. It returns false where there is none.
    pub fn explain(
        self,
        address: usize,
        records: &mut [Record; 2],
        read: impl Fn(usize, &mut Record) -> bool,
    ) -> Option<Misuse> {
        let [one, other] = self.neighbours(address);
        let has_one = one.is_some_and(|place| read(place, &mut records[0]));
        let has_other = other.is_some_and(|place| read(place, &mut records[1]));
        let key = |record: &Record| (!record.is_live(), record.distance(address).unsigned_abs());
        if has_other && (!has_one || key(&records[1]) < key(&records[0])) {
            records.swap(0, 1);
        } else if !has_one {
            return None;
        }
        let record = &records[0];
        Some(match (record.is_live(), record.deferral().is_there()) {
            (true, _) if record.distance(address) < 0 => Misuse::Underflow,
            (true, _) if self.place_of(address).is_none() => Misuse::Overflow,
            // The place was given to another block since then.
            (true, _) => Misuse::Unclear,
            (false, true) => Misuse::LateReader,
            (false, false) => Misuse::UseAfterFree,
        })
    }
}

/// What went wrong: see [`Misuse::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say what they mean")]
pub enum Misuse {
    Overflow,
    Underflow,
    UseAfterFree,
    LateReader,
    Unclear,
    DoubleFree,
    NotStart,
    FreeOfDeferred,
    Damaged,
    OtherCache,
}

impl Misuse {
    const ALL: [(Misuse, &'static str); 10] = [
        (Misuse::Overflow, "buffer overflow"),
        (Misuse::Underflow, "buffer underflow"),
        (Misuse::UseAfterFree, "use after free"),
        (Misuse::LateReader, "use after the grace period"),
        (Misuse::Unclear, "use of freed memory"),
        (Misuse::DoubleFree, "double free"),
        (Misuse::NotStart, "free of an address that is not the start of a block"),
        (Misuse::FreeOfDeferred, "free of a block that waits for a grace period"),
        (Misuse::Damaged, "writes outside of the block, found when it is freed"),
        (Misuse::OtherCache, "free by malloc's free of an object of another cache"),
    ];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Misuse::ALL.iter().find(|(misuse, _)| *misuse == self).map_or("", |(_, name)| name)
    }

    /// The error with a number, which is one of the head, less one.
    #[must_use]
    pub fn of(number: u64) -> Option<Misuse> {
        let found = Misuse::ALL.iter().find(|(misuse, _)| *misuse as u64 == number);
        found.map(|(misuse, _)| *misuse)
    }

    /// True where memory was accessed that is inaccessible.
    #[must_use]
    pub fn is_access(self) -> bool {
        self as u8 <= Misuse::Unclear as u8
    }
}

/// The last error that a head tells of, its address, and its time in ms.
#[must_use]
pub fn error_of(head: &[u64]) -> Option<(Misuse, usize, u64)> {
    let misuse = Misuse::of(head.get(ERROR)?.checked_sub(1)?)?;
    Some((misuse, *head.get(ERROR + 1)? as usize, *head.get(ERROR + 2)?))
}

/// When, in which thread and where something was done to a block.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    words: &'a [u64],
}

impl<'a> Event<'a> {
    /// True if it was done.
    #[must_use]
    pub fn is_there(self) -> bool {
        self.thread() != 0
    }

    /// On the coarse monotonic clock, in ms.
    #[must_use]
    pub fn ms(self) -> u64 {
        self.words[0]
    }

    /// The thread; 0 if it was not done.
    #[must_use]
    pub fn thread(self) -> i32 {
        (self.words[1] >> 32) as i32
    }

    /// The return addresses, the innermost first; none where the caller is not known.
    pub fn frames(self) -> impl ExactSizeIterator<Item = usize> + Clone + 'a {
        let count = (self.words[1] as usize & 0xff).min(FRAMES_MAX);
        self.words[2..2 + count].iter().map(|frame| *frame as usize)
    }
}

/// What is known of the block of a place. A copy of its words: 712 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// The word with the state of the place.
    pub state: u64,
    /// The words of the place's record.
    pub words: [u64; RECORD_WORDS],
}

impl Record {
    /// A record of a place that has never had a block.
    pub const NONE: Record = Record { state: 0, words: [0; RECORD_WORDS] };

    /// The block.
    #[must_use]
    pub fn address(&self) -> usize {
        self.words[ADDRESS] as usize
    }

    /// Bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words[BYTES] as usize
    }

    fn event(&self, first: usize) -> Event<'_> {
        Event { words: &self.words[first..first + EVENT_WORDS] }
    }

    /// The allocation.
    #[must_use]
    pub fn alloc(&self) -> Event<'_> {
        self.event(ALLOC)
    }

    /// The deferral, for blocks that are freed after a grace period.
    #[must_use]
    pub fn deferral(&self) -> Event<'_> {
        self.event(DEFERRAL)
    }

    /// The free, or the end of the grace period.
    #[must_use]
    pub fn free(&self) -> Event<'_> {
        self.event(FREE)
    }

    /// True while the block may be used.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(State::of(self.state), State::Allocated | State::Deferred)
    }

    /// How far an address is from the block: 0 inside, negative before the start.
    #[must_use]
    pub fn distance(&self, address: usize) -> isize {
        match address.checked_sub(self.address()) {
            None => address.wrapping_sub(self.address()) as isize,
            Some(offset) => (offset + 1).saturating_sub(self.bytes().max(1)) as isize,
        }
    }

    /// Where an address is, as in "8 bytes past the end of".
    #[must_use]
    pub fn position(&self, address: usize) -> impl Display + use<> {
        let offset = address.wrapping_sub(self.address()) as isize;
        let past = offset - self.bytes().cast_signed();
        fmt::from_fn(move |f| match offset {
            ..0 => write!(f, "{} bytes before the start of", offset.unsigned_abs()),
            _ if past >= 0 => write!(f, "{past} bytes past the end of"),
            inside => write!(f, "at byte {inside} of"),
        })
    }

    /// The name of the cache, written to `room`.
    pub fn name<'a>(&self, room: &'a mut [u8; 8 * NAME_WORDS]) -> &'a str {
        for (bytes, word) in room.chunks_exact_mut(8).zip(&self.words[NAME..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let used = room.iter().position(|byte| *byte == 0).unwrap_or(room.len());
        core::str::from_utf8(&room[..used]).unwrap_or("?")
    }
}
