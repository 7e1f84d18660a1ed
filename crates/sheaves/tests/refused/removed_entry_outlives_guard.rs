//! What was removed is freed after the guard.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    let removed = map.remove_entry(&1, &read());
    println!("{removed:?}");
}
