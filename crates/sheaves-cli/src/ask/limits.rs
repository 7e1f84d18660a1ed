//! Limits on the JSON that a process answers, checked before anything is made of it.
//!
//! A page has room for 4 MiB, of which an array of empty objects would make a gigabyte.

use core::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use crate::output::is_plain;

/// Arrays and objects in each other.
const DEPTH_MAX: usize = 8;
/// Elements of an array, and members of an object: more than there can be caches.
pub(crate) const ELEMENTS_MAX: usize = 1 << 14;
/// Bytes of a string: names of caches and threads have less than 32.
const STRING_BYTES_MAX: usize = 256;

/// True of JSON within the limits.
pub(crate) fn are_kept(text: &str) -> bool {
    let mut json = serde_json::Deserializer::from_str(text);
    Value(DEPTH_MAX).deserialize(&mut json).is_ok() && json.end().is_ok()
}

/// A value, in which there may be this depth of others.
#[derive(Clone, Copy)]
struct Value(usize);

impl<'de> DeserializeSeed<'de> for Value {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

fn require<E: Error>(is_kept: bool) -> Result<(), E> {
    is_kept.then_some(()).ok_or_else(|| E::custom("beyond a limit"))
}

impl<'de> Visitor<'de> for Value {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an answer of a process")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        require(text.len() <= STRING_BYTES_MAX && text.chars().all(is_plain))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let inner = Value(self.0.checked_sub(1).ok_or_else(|| A::Error::custom("too deep"))?);
        let mut count = 0;
        while elements.next_element_seed(inner)?.is_some() {
            count += 1;
            require(count <= ELEMENTS_MAX)?;
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let inner = Value(self.0.checked_sub(1).ok_or_else(|| A::Error::custom("too deep"))?);
        let mut count = 0;
        while members.next_key_seed(inner)?.is_some() {
            members.next_value_seed(inner)?;
            count += 1;
            require(count <= ELEMENTS_MAX)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ask_limits.rs"]
mod tests;
