//! A guard belongs to its thread: another one cannot even look at it.

use sheaves::rcu::read;

fn main() {
    let guard = read();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(&guard));
    });
}
