//! The hasher of maps that name none.

use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::process;

#[cfg(feature = "foldhash")]
type Inner = foldhash::fast::FoldHasher<'static>;
#[cfg(not(feature = "foldhash"))]
#[expect(deprecated, reason = "its successor is in `std`")]
type Inner = core::hash::SipHasher;

/// The hasher of maps that name none. It differs between runs of a program, so that keys from
/// outside cannot be chosen to meet in one chain. The children of a fork have that of their parent.
///
/// It is SipHash 2-4. With the feature `foldhash` it is foldhash, which is several times as fast,
/// and which a determined attacker may outwit. One crate that asks for the feature changes it for
/// all maps of the program: one with keys of attackers names its hasher. `std::hash::RandomState`
/// can be named in its place, and so can the hasher of any crate.
///
/// ```
/// use sheaves::map::{DefaultHashBuilder, RcuHashMap};
///
/// static NAMES: RcuHashMap<u64, &str> =
///     RcuHashMap::with_hasher(DefaultHashBuilder::new());
/// let ids: RcuHashMap<&str, u64> = RcuHashMap::new();
/// # assert!(NAMES.is_empty() && ids.is_empty());
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct DefaultHashBuilder;

impl DefaultHashBuilder {
    /// The hasher.
    #[must_use]
    pub const fn new() -> DefaultHashBuilder {
        DefaultHashBuilder
    }
}

impl BuildHasher for DefaultHashBuilder {
    type Hasher = DefaultHasher;

    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher(begin())
    }
}

/// What [`DefaultHashBuilder`] makes.
#[derive(Clone)]
pub struct DefaultHasher(Inner);

// A first use waits for one that is under way. So none may be in a handler, whose thread may have
// been in one, or in a child, where the thread is missing that was.
#[cfg(feature = "foldhash")]
sheaves_sys::run_when_loaded!(foldhash::SharedSeed::global_random());

#[cfg(feature = "foldhash")]
#[inline]
fn begin() -> Inner {
    Inner::with_seed(secret::<0>(), foldhash::SharedSeed::global_random())
}

#[cfg(not(feature = "foldhash"))]
#[inline]
fn begin() -> Inner {
    #[expect(deprecated, reason = "see `Inner`")]
    Inner::new_with_keys(secret::<0>(), secret::<1>())
}

/// A random number of this process.
#[inline]
fn secret<const NUMBER: usize>() -> u64 {
    static SECRETS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    // Relaxed, both: each thread stores the same number.
    match SECRETS[NUMBER].load(Ordering::Relaxed) {
        0 => {
            let secret = derive(NUMBER as u64);
            SECRETS[NUMBER].store(secret, Ordering::Relaxed);
            secret
        }
        secret => secret,
    }
}

/// Numbers that tell neither of each other nor of [`process::random_seed`], which has other uses.
#[cold]
fn derive(number: u64) -> u64 {
    #[expect(deprecated, reason = "see `Inner`")]
    let mut hasher = core::hash::SipHasher::new_with_keys(process::random_seed(), 0);
    hasher.write_u64(number);
    hasher.finish()
}

impl fmt::Debug for DefaultHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DefaultHasher").finish_non_exhaustive()
    }
}

/// Forwards the methods: a hasher may have better ones than those that `write` makes.
macro_rules! forward {
    ($($write:ident: $number:ty;)*) => {
        impl Hasher for DefaultHasher {
            #[inline]
            fn finish(&self) -> u64 {
                self.0.finish()
            }

            #[inline]
            fn write(&mut self, bytes: &[u8]) {
                self.0.write(bytes);
            }
            $(
                #[inline]
                fn $write(&mut self, number: $number) {
                    self.0.$write(number);
                }
            )*
        }
    };
}

forward! {
    write_u8: u8;
    write_u16: u16;
    write_u32: u32;
    write_u64: u64;
    write_u128: u128;
    write_usize: usize;
}
