//! Keys are compared.

use sheaves::{map::RcuHashMap, rcu::read};

fn main() {
    let map: RcuHashMap<f64, u64> = RcuHashMap::new();
    map.insert(1.0, 1, &read());
}
