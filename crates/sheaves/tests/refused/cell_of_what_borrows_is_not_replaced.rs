//! What is replaced in a cell is dropped later.

use sheaves::rcu::RcuCell;

fn main() {
    let text = String::new();
    let cell = RcuCell::new(text.as_str());
    cell.set("a");
}
