//! Contenders of `map` and `worst`: concurrent hash maps to a number, all with the same hasher.

use core::any::TypeId;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use std::collections::HashMap;
use std::hash::RandomState;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use foldhash::fast::FixedState;
use sheaves::map::{DefaultHashBuilder, RcuHashMap, RcuWordMap, Word};
use sheaves::rcu;

use crate::harness::{Contender, Failure, Sampler};

/// The other maps.
pub(crate) const PEERS: [&str; 4] = ["papaya", "dashmap", "scc", "rwlock"];
/// The library's, with the hasher of the others, and with the one that it has if none is named.
pub(crate) const OURS: [&str; 2] = ["rcu-map", "rcu-map-default"];
/// The library's map of words, where keys are numbers.
pub(crate) const WORDS: &str = "word-map";

/// What is in the map for a key, so that a reader that finds something else notices.
#[inline(always)]
pub(crate) fn value_of(key: u64) -> u64 {
    key.rotate_left(32) ^ 0x5EA5
}

/// What a map's keys are made of numbers: the number, or a string.
pub(crate) trait Key:
    Hash + Eq + Borrow<Self::Sought> + Clone + Send + Sync + 'static
{
    /// As a lookup has it.
    type Sought: Hash + Eq + ?Sized;

    fn of(number: u64) -> Self;

    fn seek<R>(number: u64, seek: impl FnOnce(&Self::Sought) -> R) -> R;
}

impl Key for u64 {
    type Sought = u64;

    #[inline(always)]
    fn of(number: u64) -> u64 {
        number
    }

    #[inline(always)]
    fn seek<R>(number: u64, seek: impl FnOnce(&u64) -> R) -> R {
        seek(&number)
    }
}

/// Sixteen letters. A lookup has them on its stack.
impl Key for String {
    type Sought = str;

    #[inline(always)]
    fn of(number: u64) -> String {
        Self::seek(number, str::to_owned)
    }

    #[inline(always)]
    fn seek<R>(number: u64, seek: impl FnOnce(&str) -> R) -> R {
        let letters: [u8; 16] =
            core::array::from_fn(|index| b'a' + (number >> (4 * index) & 15) as u8);
        seek(str::from_utf8(&letters).unwrap_or_default())
    }
}

/// Keys that a map of words can have.
pub(crate) trait Number: Key<Sought = Self> + Word {}

impl<K: Key<Sought = K> + Word> Number for K {}

/// A hasher that all contenders of a row have.
pub(crate) trait Seed: BuildHasher + Clone + Default + Send + Sync + 'static {}

impl<S: BuildHasher + Clone + Default + Send + Sync + 'static> Seed for S {}

/// A map whose keys are made of numbers.
pub(crate) trait Map: Send + Sync + 'static {
    /// What a thread holds while it uses the map.
    type Guard<'a>;

    /// An empty map with room for `entries` entries; 0 for the smallest map.
    fn with_capacity(entries: usize) -> Self;

    fn guard(&self) -> Self::Guard<'_>;

    fn get(&self, key: u64, guard: &Self::Guard<'_>) -> Option<u64>;

    /// Puts a value there, whether there is one or not.
    fn insert(&self, key: u64, value: u64, guard: &Self::Guard<'_>);

    /// Takes a key out; true if it was there.
    fn remove(&self, key: u64, guard: &Self::Guard<'_>) -> bool;

    fn len(&self) -> usize;

    /// Takes all entries out.
    fn clear(&self);

    /// Calls `at_entry` with each value of an iteration.
    fn each(&self, guard: &Self::Guard<'_>, at_entry: impl FnMut(u64));
}

/// What a table does with a map.
pub(crate) trait Work: Copy + 'static {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure>;
}

/// All maps with these keys and this hasher. With std's, which is the default of the others, also
/// the library's with its own default.
pub(crate) fn contenders<K: Key, S: Seed>(work: impl Work) -> Vec<Contender> {
    let mut contenders = vec![Contender::new("rcu-map", move || work.sampler::<Ours<K, S>>())];
    if TypeId::of::<K>() == TypeId::of::<u64>() {
        contenders.push(Contender::new(WORDS, move || work.sampler::<Words<u64, S>>()));
    }
    if TypeId::of::<S>() == TypeId::of::<RandomState>() {
        let ours = move || work.sampler::<Ours<K, DefaultHashBuilder>>();
        contenders.push(Contender::new("rcu-map-default", ours));
    }
    contenders.extend([
        Contender::new("papaya", move || work.sampler::<Papaya<K, S>>()),
        Contender::new("dashmap", move || work.sampler::<Dash<K, S>>()),
        Contender::new("scc", move || work.sampler::<Scc<K, S>>()),
        Contender::new("rwlock", move || work.sampler::<Locked<K, S>>()),
    ]);
    contenders
}

/// `rcu-map`: the library's.
pub(crate) type Ours<K = u64, S = FixedState> = RcuHashMap<K, u64, S>;
/// `word-map`: the library's with keys and values in its table.
pub(crate) type Words<K = u64, S = FixedState> = RcuWordMap<K, u64, S>;
pub(crate) type Papaya<K = u64, S = FixedState> = papaya::HashMap<K, u64, S>;
/// `dashmap`, which locks a shard of it for each operation.
pub(crate) type Dash<K = u64, S = FixedState> = dashmap::DashMap<K, u64, S>;
/// `scc`, which locks a bucket.
pub(crate) type Scc<K = u64, S = FixedState> = scc::HashMap<K, u64, S>;
/// `rwlock`: std's map behind a lock for all of it.
pub(crate) type Locked<K = u64, S = FixedState> = RwLock<HashMap<K, u64, S>>;

fn read<M>(map: &RwLock<M>) -> RwLockReadGuard<'_, M> {
    map.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<M>(map: &RwLock<M>) -> RwLockWriteGuard<'_, M> {
    map.write().unwrap_or_else(PoisonError::into_inner)
}

/// The trait for a map, by what differs: the guard, and how each call is made.
macro_rules! map {
    (
        $name:ident $(: $bound:path)?, $life:lifetime, $guard:ty, $map:ident, $held:ident;
        new: $new:expr;
        guard: $enter:expr;
        get($sought:ident): $get:expr;
        insert($key:ident, $value:ident): $insert:expr;
        remove: $remove:expr;
        len: $len:expr;
        clear: $clear:expr;
        each($each:ident): $iterate:expr;
    ) => {
        impl<K: Key $(+ $bound)?, S: Seed> Map for $name<K, S> {
            type Guard<$life> = $guard;

            fn with_capacity(entries: usize) -> Self {
                $new(entries, S::default())
            }

            #[inline(always)]
            fn guard(&self) -> Self::Guard<'_> {
                let $map = self;
                $enter
            }

            #[inline(always)]
            fn get(&self, key: u64, $held: &Self::Guard<'_>) -> Option<u64> {
                let ($map, _) = (self, $held);
                K::seek(key, |$sought| $get)
            }

            #[inline(always)]
            fn insert(&self, key: u64, $value: u64, $held: &Self::Guard<'_>) {
                let ($map, $key, _) = (self, K::of(key), $held);
                $insert;
            }

            #[inline(always)]
            fn remove(&self, key: u64, $held: &Self::Guard<'_>) -> bool {
                let ($map, _) = (self, $held);
                K::seek(key, |$sought| $remove.is_some())
            }

            fn len(&self) -> usize {
                let $map = self;
                $len
            }

            fn clear(&self) {
                let $map = self;
                $clear;
            }

            fn each(&self, $held: &Self::Guard<'_>, mut $each: impl FnMut(u64)) {
                let ($map, _) = (self, $held);
                $iterate;
            }
        }
    };
}

map! {
    Ours, 'a, rcu::Guard, map, guard;
    new: RcuHashMap::with_capacity_and_hasher;
    guard: { let _ = map; rcu::read() };
    get(key): map.get(key, guard).copied();
    insert(key, value): map.insert(key, value, guard);
    remove: map.remove(key, guard);
    len: map.len();
    clear: map.clear();
    each(at): map.iter(guard).for_each(|(_, value)| at(*value));
}

map! {
    Words: Number, 'a, (), map, guard;
    new: RcuWordMap::with_capacity_and_hasher;
    guard: { let _ = map; };
    get(key): map.get(key);
    insert(key, value): map.insert(key, value);
    remove: map.remove(key);
    len: map.len();
    clear: map.clear();
    each(at): map.values(&rcu::read()).for_each(&mut at);
}

map! {
    Papaya, 'a, papaya::LocalGuard<'a>, map, guard;
    new: papaya::HashMap::with_capacity_and_hasher;
    guard: map.guard();
    get(key): map.get(key, guard).copied();
    insert(key, value): map.insert(key, value, guard);
    remove: map.remove(key, guard);
    len: map.len();
    clear: map.pin().clear();
    each(at): map.iter(guard).for_each(|(_, value)| at(*value));
}

map! {
    Dash, 'a, (), map, guard;
    new: dashmap::DashMap::with_capacity_and_hasher;
    guard: { let _ = map; };
    get(key): map.get(key).map(|found| *found);
    insert(key, value): map.insert(key, value);
    remove: map.remove(key);
    len: map.len();
    clear: map.clear();
    each(at): map.iter().for_each(|entry| at(*entry));
}

map! {
    Scc, 'a, (), map, guard;
    new: scc::HashMap::with_capacity_and_hasher;
    guard: { let _ = map; };
    get(key): map.read_sync(key, |_, value| *value);
    insert(key, value): map.upsert_sync(key, value);
    remove: map.remove_sync(key);
    len: map.len();
    clear: map.clear_sync();
    each(at): map.iter_sync(|_, value| { at(*value); true });
}

map! {
    Locked, 'a, (), map, guard;
    new: |entries, seed| RwLock::new(HashMap::with_capacity_and_hasher(entries, seed));
    guard: { let _ = map; };
    get(key): read(map).get(key).copied();
    insert(key, value): write(map).insert(key, value);
    remove: write(map).remove(key);
    len: read(map).len();
    clear: write(map).clear();
    each(at): read(map).values().for_each(|value| at(*value));
}

#[cfg(test)]
#[path = "../../tests/unit/contenders_maps.rs"]
mod tests;
