use sheaves_rcu::read;

fn main() {
    let guard = read();
    std::thread::spawn(move || drop(guard));
}
