//! A task that holds a guard across an `.await` cannot move to another thread.

use sheaves::rcu::read;

async fn wait() {
    let guard = read();
    core::future::ready(()).await;
    drop(guard);
}

fn spawn(_: impl Future + Send) {}

fn main() {
    spawn(wait());
}
