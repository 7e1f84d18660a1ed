//! Readers may still use what was replaced.

use sheaves::rcu::RcuCell;

fn main() {
    let cell = RcuCell::new(String::new());
    let mut old = cell.store(String::new());
    old.push('a');
}
