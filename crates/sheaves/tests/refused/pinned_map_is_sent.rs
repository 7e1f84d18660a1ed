//! A map with a guard belongs to the thread of the guard.

use sheaves::map::RcuHashMap;

fn main() {
    let map: RcuHashMap<u64, u64> = RcuHashMap::new();
    let pinned = map.pin();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(pinned));
    });
}
