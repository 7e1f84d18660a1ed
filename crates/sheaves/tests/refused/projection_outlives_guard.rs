//! A part of a cell's value ends with the guard.

use sheaves::rcu::{RcuCell, read};

fn main() {
    let cell = RcuCell::new((1, 2));
    let part = cell.map(|value| &value.0);
    let guard = read();
    let seen = part.load(&guard);
    drop(guard);
    println!("{seen}");
}
