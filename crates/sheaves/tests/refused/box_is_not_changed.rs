//! Readers share the value of a box.

use sheaves::rcu::RcuBox;

fn main() {
    let mut shared = RcuBox::new(String::new());
    shared.push('a');
}
