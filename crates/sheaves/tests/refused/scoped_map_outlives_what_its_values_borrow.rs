//! A scoped map ends before what its values borrow.

use sheaves::{map::{DefaultHashBuilder, RcuHashMap}, rcu::read};

fn main() {
    let map = RcuHashMap::scoped(0, DefaultHashBuilder::new());
    let text = String::new();
    map.insert(1, text.as_str(), &read());
    drop(text);
    map.clear();
}
