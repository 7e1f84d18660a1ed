//! What a map in a read section returns ends with the section.

use sheaves::map::RcuHashMap;

fn main() {
    let map: RcuHashMap<u64, String> = RcuHashMap::new();
    let found = map.pin().get(&1);
    println!("{found:?}");
}
