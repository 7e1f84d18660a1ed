//! A deferred call runs in another thread.

use std::rc::Rc;

use sheaves::rcu::defer;

fn main() {
    let count = Rc::new(1);
    defer(move || drop(count));
}
