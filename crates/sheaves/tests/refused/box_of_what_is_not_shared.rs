//! Readers of a box are in any thread.

use std::cell::Cell;

use sheaves::rcu::RcuBox;

fn main() {
    let _ = RcuBox::new(Cell::new(1));
}
