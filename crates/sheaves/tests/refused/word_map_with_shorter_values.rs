//! A value that a map returns lives as long as the map's type says.

use sheaves::map::{RcuWordMap, Word};

#[derive(Clone, Copy)]
struct Lent<'a>(&'a u64);

impl<'a> Word for Lent<'a> {
    fn to_word(self) -> u64 {
        core::ptr::from_ref(self.0).expose_provenance() as u64
    }

    fn from_word(word: u64) -> Lent<'a> {
        // SAFETY: the word is from `to_word` of this type.
        Lent(unsafe { &*core::ptr::with_exposed_provenance(word as usize) })
    }
}

fn insert<'a>(map: &RcuWordMap<u64, Lent<'a>>, value: &'a u64) {
    map.insert(1, Lent(value));
}

fn main() {
    let map: RcuWordMap<u64, Lent<'static>> = RcuWordMap::new();
    let value = 7;
    insert(&map, &value);
}
