use std::cell::Cell;

use sheaves::rcu::RcuCell;

fn main() {
    let cell = RcuCell::new(Cell::new(1));
    std::thread::scope(|scope| {
        scope.spawn(|| drop(cell.store(Cell::new(2))));
    });
}
