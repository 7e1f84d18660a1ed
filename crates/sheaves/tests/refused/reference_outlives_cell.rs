use sheaves::rcu::{RcuCell, read};

fn main() {
    let guard = read();
    let cell = RcuCell::new(1);
    let value = cell.load(&guard);
    drop(cell);
    println!("{value}");
}
