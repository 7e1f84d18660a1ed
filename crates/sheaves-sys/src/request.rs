//! Requests to this process: a word that threads read where they hold no lock.
//!
//! Users: the slow paths of `sheaves-slab` and the reclaimer of `sheaves-rcu` read the word, and
//! `sheaves-control` says which word it is and what is done about it. A request costs nothing while
//! there is none: fast paths do not look, and slow paths read one word.
//!
//! | the word is | it holds | meaning |
//! |---|---|---|
//! | `NOTHING` | 0 | requests are not answered |
//! | `UNMADE` | [`REQUESTED`] | the page for requests is to be made, once it is time |
//! | in the page | see `sheaves_control::layout` | tools write [`REQUESTED`] into it |
//!
//! The address of the word in the page is the same as long as the process lives, and in its
//! children: a new page takes the place of the old one.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use crate::futex;

/// The value of the word when something is to be done.
pub const REQUESTED: u32 = 1;

static NOTHING: AtomicU32 = AtomicU32::new(0);
static UNMADE: AtomicU32 = AtomicU32::new(REQUESTED);
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NOTHING).cast_mut());
/// An [`Answer`] as an address, 0 before [`set_answer`].
static ANSWER: AtomicUsize = AtomicUsize::new(0);

/// Does what is requested. `is_keeper` if the caller is the thread of the library.
pub type Answer = fn(is_keeper: bool);

/// Which word threads read.
#[derive(Debug, Clone, Copy)]
pub enum Watch {
    /// None.
    Nothing,
    /// There is no page yet.
    Unmade,
    /// The word in the page.
    Page(&'static AtomicU32),
}

/// Sets the function that answers. When the object is loaded.
pub fn set_answer(answer: Answer) {
    // Relaxed: before there are threads.
    ANSWER.store(answer as usize, Ordering::Relaxed);
}

/// Changes the word that threads read.
pub fn watch(watch: Watch) {
    let word: *const AtomicU32 = match watch {
        Watch::Nothing => &raw const NOTHING,
        Watch::Unmade => &raw const UNMADE,
        Watch::Page(word) => word,
    };
    // Release pairs with the Acquire in `word`: the page is mapped. [Q2]
    WORD.store(word.cast_mut(), Ordering::Release);
}

#[inline]
fn word() -> &'static AtomicU32 {
    // Acquire pairs with the Release in `watch`. [Q2]
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: a static, or in the page, which is never unmapped.
    unsafe { &*word }
}

/// Does what is requested, if something is. Two loads otherwise. Not under a lock.
#[inline]
pub fn look() {
    // Relaxed: a hint; the one that answers takes the request by an exchange.
    if word().load(Ordering::Relaxed) == REQUESTED {
        look_slow();
    }
}

/// Looks at [`UNMADE`] of which one has the clock read.
const LOOKS: u32 = 32;

#[cold]
fn look_slow() {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    if core::ptr::eq(word(), &raw const UNMADE) {
        // Relaxed, both: a lost look does not matter.
        let count = COUNT.load(Ordering::Relaxed).wrapping_add(1);
        COUNT.store(count, Ordering::Relaxed);
        if !count.is_multiple_of(LOOKS) {
            return;
        }
    }
    answer(false);
}

/// [`look`] for the thread of the library, which also makes the page at once.
pub fn look_as_keeper() {
    // Relaxed: as in `look`.
    if word().load(Ordering::Relaxed) == REQUESTED {
        answer(true);
    }
}

#[cold]
fn answer(is_keeper: bool) {
    // Relaxed: stored before there were threads.
    let answer = ANSWER.load(Ordering::Relaxed);
    if answer != 0 {
        // SAFETY: stored by `set_answer`.
        let answer = unsafe { core::mem::transmute::<usize, Answer>(answer) };
        answer(is_keeper);
    }
}

/// Sleeps until `bell` is woken or something is requested, for at most `nanoseconds` if there are
/// any. Returns at once if the bell does not hold `expected`. Spurious wake-ups happen.
///
/// Where the kernel cannot wait for two words (before Linux 5.16, or in a sandbox), a request does
/// not end the sleep, and slow paths do what is requested.
pub fn sleep(bell: &AtomicU32, expected: u32, nanoseconds: Option<u64>) {
    let word = word();
    let is_static = [&raw const NOTHING, &raw const UNMADE].contains(&core::ptr::from_ref(word));
    if !is_static {
        // Relaxed: the kernel compares it with the word before it sleeps.
        let seen = word.load(Ordering::Relaxed);
        if seen == REQUESTED || futex::wait_either((bell, expected), (word, seen), nanoseconds) {
            return;
        }
    }
    match nanoseconds {
        None => futex::wait(bell, expected),
        Some(nanoseconds) => futex::wait_for(bell, expected, nanoseconds),
    }
}
