//! Contenders of `map` and `worst`: concurrent hash maps from one number to another, all with the
//! same hasher.

use foldhash::fast::FixedState;
use sheaves::map::RcuHashMap;
use sheaves::rcu;

/// What is in the map for a key, so that a reader that finds something else notices.
#[inline(always)]
pub(crate) fn value_of(key: u64) -> u64 {
    key.rotate_left(32) ^ 0x5EA5
}

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

    /// Calls `at_entry` at each entry of an iteration.
    fn each(&self, guard: &Self::Guard<'_>, at_entry: impl FnMut());
}

/// `rcu-map`: the library's.
pub(crate) type Ours = RcuHashMap<u64, u64, FixedState>;
pub(crate) type Papaya = papaya::HashMap<u64, u64, FixedState>;
/// `dashmap`, which locks a shard of it for each operation.
pub(crate) type Dash = dashmap::DashMap<u64, u64, FixedState>;

macro_rules! guarded_map {
    ($map:ty, $life:lifetime, $guard:ty, $enter:expr, $clear:expr) => {
        impl Map for $map {
            type Guard<$life> = $guard;

            fn with_capacity(entries: usize) -> $map {
                <$map>::with_capacity_and_hasher(entries, FixedState::default())
            }

            #[inline(always)]
            fn guard(&self) -> Self::Guard<'_> {
                $enter(self)
            }

            #[inline(always)]
            fn get(&self, key: u64, guard: &Self::Guard<'_>) -> Option<u64> {
                self.get(&key, guard).copied()
            }

            #[inline(always)]
            fn insert(&self, key: u64, value: u64, guard: &Self::Guard<'_>) {
                self.insert(key, value, guard);
            }

            #[inline(always)]
            fn remove(&self, key: u64, guard: &Self::Guard<'_>) -> bool {
                self.remove(&key, guard).is_some()
            }

            fn len(&self) -> usize {
                self.len()
            }

            fn clear(&self) {
                $clear(self);
            }

            fn each(&self, guard: &Self::Guard<'_>, mut at_entry: impl FnMut()) {
                self.iter(guard).for_each(|_| at_entry());
            }
        }
    };
}

guarded_map!(Ours, 'a, rcu::Guard, |_| rcu::read(), Ours::clear);
guarded_map!(Papaya, 'a, papaya::LocalGuard<'a>, Papaya::guard, |map: &Papaya| map.pin().clear());

impl Map for Dash {
    type Guard<'a> = ();

    fn with_capacity(entries: usize) -> Dash {
        dashmap::DashMap::with_capacity_and_hasher(entries, FixedState::default())
    }

    #[inline(always)]
    fn guard(&self) {}

    #[inline(always)]
    fn get(&self, key: u64, (): &()) -> Option<u64> {
        self.get(&key).map(|found| *found)
    }

    #[inline(always)]
    fn insert(&self, key: u64, value: u64, (): &()) {
        self.insert(key, value);
    }

    #[inline(always)]
    fn remove(&self, key: u64, (): &()) -> bool {
        self.remove(&key).is_some()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn clear(&self) {
        self.clear();
    }

    fn each(&self, (): &(), mut at_entry: impl FnMut()) {
        self.iter().for_each(|_| at_entry());
    }
}

#[cfg(test)]
#[path = "../../tests/unit/contenders_maps.rs"]
mod tests;
