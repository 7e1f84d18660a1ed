//! A section ends before its domain.

use sheaves::rcu::Srcu;

fn main() {
    let domain = Srcu::new().unwrap();
    let guard = domain.read();
    drop(domain);
    drop(guard);
}
