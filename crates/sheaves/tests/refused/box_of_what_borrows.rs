//! A box is dropped by the library, later.

use sheaves::rcu::RcuBox;

fn main() {
    let text = String::new();
    drop(RcuBox::new(text.as_str()));
}
