//! What an insertion returns ends with the guard.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    let guard = read();
    let old = map.insert(1, String::new(), &guard);
    drop(guard);
    println!("{old:?}");
}
