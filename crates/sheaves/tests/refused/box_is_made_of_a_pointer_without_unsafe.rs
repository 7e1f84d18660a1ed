//! What a pointer leads to is the caller's promise.

use sheaves::rcu::RcuBox;

fn main() {
    let pointer = RcuBox::new(1).into_raw();
    drop(RcuBox::from_raw(pointer));
}
