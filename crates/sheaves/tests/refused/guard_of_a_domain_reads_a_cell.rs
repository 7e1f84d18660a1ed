//! A domain's grace periods are not those that cells wait for.

use sheaves::rcu::{RcuCell, Srcu};

fn main() {
    let domain = Srcu::new().unwrap();
    let cell = RcuCell::new(1);
    let guard = domain.read();
    println!("{}", cell.load(&guard));
}
