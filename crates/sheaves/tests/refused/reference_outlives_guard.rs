use sheaves::rcu::{RcuCell, read};

fn main() {
    let cell = RcuCell::new(1);
    let value = {
        let guard = read();
        cell.load(&guard)
    };
    println!("{value}");
}
