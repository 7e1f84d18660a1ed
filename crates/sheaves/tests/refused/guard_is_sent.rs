use sheaves::rcu::read;

fn main() {
    let guard = read();
    std::thread::spawn(move || drop(guard));
}
