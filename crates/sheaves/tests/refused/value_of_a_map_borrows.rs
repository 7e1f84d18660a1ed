//! The library drops values after the end of the map.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<u64, &str> = RcuHashMap::new();
    let text = String::new();
    map.insert(1, text.as_str(), &read());
    drop(text);
    map.clear();
}
