//! Resizes whose last unit is moved late.

use core::hash::BuildHasherDefault;
use core::time::Duration;
use std::sync::mpsc;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

use super::{Itself, engines};

/// Chains of the smallest table: keys of one chain are equal modulo this.
const CHAINS: u64 = 8;

/// A closure that runs for long delays changes of its own chain, and no others: these leave the
/// chain behind, and one that comes later moves it.
#[test]
fn chain_that_is_locked_for_long_is_moved_later() {
    // Few: their chains stay as long as the table that is being left.
    let keys = 8..if engines::is_small() { 300 } else { 2000 };
    let map = &RcuHashMap::<u64, u64, BuildHasherDefault<Itself>>::default();
    let others = || keys.clone().filter(|key| key % CHAINS != 0);
    let insert_others = || {
        others().for_each(|key| {
            map.insert(key, key, &read());
        });
    };
    let remove_others = || {
        others().for_each(|key| {
            map.remove(&key, &read());
        });
    };
    let during = |change: &dyn Fn()| {
        let ((begin, has_begun), (end, is_over)) = (mpsc::channel(), mpsc::channel());
        std::thread::scope(|scope| {
            let slow = move |value: Option<&u64>| {
                begin.send(()).unwrap();
                is_over.recv_timeout(Duration::from_secs(60)).expect("the changes do not wait");
                value.map_or(Some(0), |value| Some(value + 1))
            };
            scope.spawn(move || map.compute(0, slow, &read()).copied());
            has_begun.recv().unwrap();
            change();
            end.send(()).unwrap();
        });
    };
    during(&insert_others);
    assert_eq!(map.iter(&read()).count(), map.len());
    // Any changes do, also replacements.
    for _ in 0..20 {
        insert_others();
    }
    let large = map.capacity();
    assert!(large >= map.len(), "{large} for {}", map.len());
    during(&remove_others);
    for _ in 0..2 {
        insert_others();
        remove_others();
    }
    assert!(map.capacity() < large);
    let guard = read();
    let all: Vec<_> = map.iter(&guard).map(|(key, value)| (*key, *value)).collect();
    assert_eq!(all, [(0, 1)]);
}
