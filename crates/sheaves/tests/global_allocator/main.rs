//! A program with the heap as its global allocator: this one.
//!
//! Collections, threads, layouts of every alignment, and forks, for which the handlers of all
//! layers have to run. The test harness itself allocates from the heap, too. Each configuration of
//! the engine is a process of its own: see [`in_every_configuration`].

#[path = "../configurations/mod.rs"]
mod configurations;
mod fork;
mod layouts;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, mpsc};

use sheaves::Sheaves;

#[global_allocator]
static HEAP: Sheaves = Sheaves::new();

#[test]
fn in_every_configuration() {
    configurations::run_all();
}

#[test]
fn the_heap_is_in_use() {
    let before = sheaves::heap::report::totals();
    let block = vec![1_u8; 32 << 20];
    let with = sheaves::heap::report::totals();
    assert!(with.large_bytes >= 32 << 20 && with.large_blocks >= 1, "{before:?} {with:?}");
    assert_eq!(block.iter().map(|byte| usize::from(*byte)).sum::<usize>(), 32 << 20);
}

#[test]
fn collections_hold_what_they_are_given() {
    let mut tree = BTreeMap::new();
    let mut table = HashMap::new();
    let mut queue = VecDeque::new();
    for number in 0..50_000_u64 {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        tree.insert(key, format!("{key}"));
        table.insert(key, vec![number; (key % 40) as usize]);
        queue.push_back(Box::new(key));
        if number % 3 == 0 {
            let key = *queue.pop_front().unwrap();
            tree.remove(&key);
            table.remove(&key);
        }
    }
    assert!(tree.iter().all(|(key, text)| *text == key.to_string()));
    assert!(table.iter().all(|(key, list)| list.len() == (key % 40) as usize));
    assert!(tree.keys().all(|key| table.contains_key(key)));
    assert_eq!(tree.len(), table.len());
}

#[test]
fn strings_grow_and_shrink() {
    let mut text = String::new();
    for count in 0..200_000 {
        text.push(char::from(b'a' + (count % 26) as u8));
    }
    for length in [100_000, 40_000, 5000, 100, 1, 0] {
        text.truncate(length);
        text.shrink_to_fit();
        let expected = |(index, byte)| byte == b'a' + (index % 26) as u8;
        assert!(text.bytes().enumerate().all(expected), "at {length}");
    }
}

#[test]
fn threads_give_each_other_memory() {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    let shared = Arc::new(Mutex::new(Vec::new()));
    let makers: Vec<_> = (0..6)
        .map(|maker| {
            let (sender, shared) = (sender.clone(), Arc::clone(&shared));
            std::thread::spawn(move || {
                for round in 0..200 {
                    let list = (0..50).map(|item| format!("{maker} {round} {item}")).collect();
                    sender.send(list).unwrap();
                    shared.lock().unwrap().push(Box::new([round; 20]));
                }
            })
        })
        .collect();
    drop(sender);
    let total: usize = receiver.iter().map(|list| list.len()).sum();
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    assert_eq!(total, 6 * 200 * 50);
    let shared = shared.lock().unwrap();
    assert!(shared.iter().all(|numbers| numbers.iter().all(|number| *number == numbers[0])));
}

/// Thread-local values with destructors that allocate, in short-lived threads.
#[test]
fn threads_allocate_while_they_end() {
    struct AtEnd(Vec<u8>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let copy = self.0.clone();
            assert_eq!(copy.len(), 1000);
        }
    }
    std::thread_local! {
        static AT_END: AtEnd = AtEnd(vec![7; 1000]);
    }
    for _ in 0..50 {
        let threads: Vec<_> =
            (0..8).map(|_| std::thread::spawn(|| AT_END.with(|end| end.0[10]))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 7));
    }
}

/// A vector that shrinks far enough for another size class is freed with its new layout.
#[test]
fn smaller_layout_leads_to_the_right_class() {
    let mut kept = Vec::new();
    for _ in 0..200 {
        let mut shrunk: Vec<u8> = Vec::with_capacity(1000);
        shrunk.resize(600, 1);
        kept.push(Vec::<u8>::with_capacity(600));
        shrunk.shrink_to_fit();
        assert!(shrunk.iter().all(|byte| *byte == 1));
        drop(shrunk);
        if kept.len() > 50 {
            kept.clear();
        }
    }
    drop(kept);
    // Debug mode checks every object for the slab that it returns to.
    sheaves::trim(0);
}
