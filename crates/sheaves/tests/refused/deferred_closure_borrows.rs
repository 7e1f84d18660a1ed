//! A deferred call runs after the function that deferred it.

use sheaves::rcu::defer;

fn main() {
    let mut count = 0;
    defer(|| count += 1);
}
