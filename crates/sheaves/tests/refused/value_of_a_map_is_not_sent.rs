//! The library drops values in its own thread.

use std::rc::Rc;

use sheaves::map::RcuHashMap;

fn main() {
    let _: RcuHashMap<u64, Rc<u64>> = RcuHashMap::new();
}
