//! A map whose values may stay in one thread only stays there, too.

use std::cell::Cell;

use sheaves::map::{DefaultHashBuilder, RcuHashMap};

fn main() {
    let map = RcuHashMap::<u64, Cell<u64>>::scoped(0, DefaultHashBuilder::new());
    std::thread::scope(|scope| {
        scope.spawn(|| map.len());
    });
}
