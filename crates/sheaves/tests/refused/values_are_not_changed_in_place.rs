//! Readers share the values of a map.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    if let Some(value) = map.get(&1, &read()) {
        value.push('a');
    }
}
