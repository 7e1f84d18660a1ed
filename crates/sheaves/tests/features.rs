//! What comes with features: `foldhash`, `rayon`, `serde`.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelExtend, ParallelIterator};
use sheaves::map::{RcuHashMap, RcuHashSet};
use sheaves::rcu::{RcuBox, RcuCell, RcuOption, read};

const COUNT: u64 = 20_000;

#[test]
fn what_is_written_is_read() {
    let map: RcuHashMap<String, Vec<u64>> =
        (0..9).map(|key| (key.to_string(), vec![key; key as usize])).collect();
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(serde_json::to_string(&map.pin()).unwrap(), text);
    assert_eq!(serde_json::from_str::<RcuHashMap<String, Vec<u64>>>(&text).unwrap(), map);
    assert!(serde_json::from_str::<RcuHashMap<String, u64>>("[1]").is_err());

    let set: RcuHashSet<u64> = (0..9).collect();
    let text = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<RcuHashSet<u64>>(&text).unwrap(), set);
    assert!(serde_json::from_str::<RcuHashSet<u64>>("7").is_err());

    let cells = (RcuCell::new(7), RcuOption::new("a".to_owned()), RcuOption::<u64>::empty());
    let text = serde_json::to_string(&(cells, RcuBox::new(8))).unwrap();
    assert_eq!(text, r#"[[7,"a",null],8]"#);
    type Read = ((RcuCell<u64>, RcuOption<String>, RcuOption<u64>), RcuBox<u64>);
    let ((seven, a, none), eight) = serde_json::from_str::<Read>(&text).unwrap();
    assert_eq!((seven.into_inner(), *eight), (7, 8));
    assert_eq!((a.load(&read()).map(String::as_str), none.load(&read())), (Some("a"), None));
}

/// Also while other threads change the map and its table grows.
#[test]
fn parallel_iteration_returns_each_entry_once() {
    let map: RcuHashMap<u64, u64> = (0..COUNT).into_par_iter().map(|key| (key, !key)).collect();
    assert_eq!(map.len() as u64, COUNT);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut key = COUNT;
            while !end.load(Ordering::Relaxed) {
                map.insert(key, !key, &read());
                key = if key < 8 * COUNT { key + 1 } else { COUNT };
            }
        });
        for _ in 0..20 {
            let guard = read();
            let mut seen: Vec<u64> = map
                .par_iter(&guard)
                .inspect(|(key, value)| assert_eq!(**key, !**value))
                .map(|(key, _)| *key)
                .filter(|key| *key < COUNT)
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..COUNT));
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(RcuHashMap::<u64, u64>::new().par_iter(&read()).count(), 0);
}

#[test]
fn parallel_insertions_are_all_there() {
    let value = Arc::new(());
    let map = RcuHashMap::<u64, Arc<()>>::new();
    (&map).par_extend((0..COUNT).into_par_iter().map(|key| (key, value.clone())));
    (&map).par_extend((0..COUNT).into_par_iter().map(|key| (key, value.clone())));
    let found: BTreeMap<u64, Arc<()>> = map.into_iter().collect();
    assert!(found.into_keys().eq(0..COUNT));
    sheaves::rcu::defer::barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}
