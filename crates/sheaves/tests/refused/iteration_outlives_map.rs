//! An iteration ends with the map.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let guard = read();
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    let mut all = map.iter(&guard);
    drop(map);
    println!("{:?}", all.next());
}
