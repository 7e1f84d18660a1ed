//! An iteration ends with the guard.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    let guard = read();
    let mut all = map.iter(&guard);
    drop(guard);
    println!("{:?}", all.next());
}
