//! Maps, sets and boxes in the formats of serde, with the feature `serde`.

use alloc::vec::Vec;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sheaves_rcu::read;

use crate::map::{Pinned, RcuHashMap, RcuHashSet};
use crate::rcu::RcuBox;

/// A map of what an iteration returns, with its length, which some formats need first. The read
/// section lasts until all is written.
impl<K, V, S> Serialize for RcuHashMap<K, V, S>
where
    K: Serialize + Hash + Eq,
    V: Serialize,
    S: BuildHasher,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        self.pin().serialize(serializer)
    }
}

impl<K, V, S> Serialize for Pinned<'_, K, V, S>
where
    K: Serialize + Hash + Eq,
    V: Serialize,
    S: BuildHasher,
{
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        serializer.collect_map(self.iter().collect::<Vec<_>>())
    }
}

/// A sequence of what an iteration returns, otherwise as a map.
impl<T: Serialize + Hash + Eq, S: BuildHasher> Serialize for RcuHashSet<T, S> {
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        serializer.collect_seq(self.iter(&read()).collect::<Vec<_>>())
    }
}

impl<T: Serialize + Send + Sync + 'static> Serialize for RcuBox<T> {
    fn serialize<R: Serializer>(&self, serializer: R) -> Result<R::Ok, R::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Send + Sync + 'static> Deserialize<'de> for RcuBox<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RcuBox<T>, D::Error> {
        T::deserialize(deserializer).map(RcuBox::new)
    }
}

/// Fills a new collection.
struct Filling<C>(PhantomData<C>);

impl<'de, K, V, S> Visitor<'de> for Filling<RcuHashMap<K, V, S>>
where
    K: Deserialize<'de> + Hash + Eq + Send + 'static,
    V: Deserialize<'de> + Send + 'static,
    S: BuildHasher + Default,
{
    type Value = RcuHashMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let map = RcuHashMap::default();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value, &read());
        }
        Ok(map)
    }
}

impl<'de, K, V, S> Deserialize<'de> for RcuHashMap<K, V, S>
where
    K: Deserialize<'de> + Hash + Eq + Send + 'static,
    V: Deserialize<'de> + Send + 'static,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Filling::<Self>(PhantomData))
    }
}

impl<'de, T, S> Visitor<'de> for Filling<RcuHashSet<T, S>>
where
    T: Deserialize<'de> + Hash + Eq + Send + 'static,
    S: BuildHasher + Default,
{
    type Value = RcuHashSet<T, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let set = RcuHashSet::default();
        while let Some(value) = values.next_element()? {
            set.insert(value, &read());
        }
        Ok(set)
    }
}

impl<'de, T, S> Deserialize<'de> for RcuHashSet<T, S>
where
    T: Deserialize<'de> + Hash + Eq + Send + 'static,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Filling::<Self>(PhantomData))
    }
}
