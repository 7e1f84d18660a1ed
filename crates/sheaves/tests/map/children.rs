//! Children of forks change a map that other threads were changing, whose locks they inherit.

use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Receiver, Sender, channel};

use sheaves::map::RcuHashMap;
use sheaves::rcu::defer::{barrier, statistics};
use sheaves::rcu::read;

use super::Itself;
use super::child::{child_ends, status_of_child, status_within};

/// Children after which a test gives up if all were refused.
const BARE_CHILDREN_MAX: u32 = 100;

/// A key whose hash is that of its lowest bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key(u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 % (1 << 20));
    }
}

/// A value that is dropped once.
struct Once(AtomicBool);

impl Once {
    fn new() -> Box<Once> {
        Box::new(Once(AtomicBool::new(false)))
    }
}

impl Drop for Once {
    fn drop(&mut self) {
        // Relaxed: the flag is of this value alone.
        assert!(!self.0.swap(true, Ordering::Relaxed), "dropped twice");
    }
}

type Map = RcuHashMap<Key, Box<Once>, BuildHasherDefault<Itself>>;

/// Keys of one chain in all tables of these tests; with overflow buckets.
fn crowd() -> impl Iterator<Item = u64> {
    (0..20).map(|key| key << 20)
}

fn insert(map: &Map, key: u64) {
    map.insert(Key(key), Once::new(), &read());
}

/// Runs `body` in a child whose C library does not know that there was a fork, so no handler was
/// called. True if it returns within some seconds, `None` if it is refused the heap: another thread
/// was changing that.
fn bare_child_ends(body: impl FnOnce()) -> Option<bool> {
    let flags = libc::c_long::from(libc::SIGCHLD);
    // SAFETY: as a fork: the child has memory of its own, and the same stack.
    let fork =
        || unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    let (mut said, stderr) = std::io::pipe().unwrap();
    let status = status_of_child(
        || fork() as libc::pid_t,
        || {
            // SAFETY: both are open.
            unsafe { libc::dup2(stderr.as_raw_fd(), libc::STDERR_FILENO) };
            body();
        },
    );
    drop(stderr);
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    let is_aborted = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT;
    let is_refused = is_aborted && text.contains("cannot use the heap");
    eprint!("{text}");
    (!is_refused).then_some(status == 0)
}

/// Uses everything in a child, whose map has these keys, maybe without the `doubtful` one.
fn use_map(map: &'static Map, mut keys: BTreeSet<u64>, doubtful: u64) {
    let check = |keys: &BTreeSet<u64>| {
        let guard = read();
        let mut seen = BTreeSet::new();
        for (key, value) in map.iter(&guard) {
            assert!(!value.0.load(Ordering::Relaxed) && seen.insert(key.0), "{key:?}");
        }
        assert_eq!(&seen, keys);
        assert!(keys.iter().all(|key| map.get(&Key(*key), &guard).is_some()));
    };
    map.remove(&Key(doubtful), &read());
    keys.remove(&doubtful);
    check(&keys);
    for key in crowd().step_by(2).chain(3..9) {
        assert_eq!(map.remove(&Key(key), &read()).is_some(), keys.remove(&key), "{key}");
        check(&keys);
    }
    let before = map.capacity();
    for key in 0..2000 {
        insert(map, key);
        keys.insert(key);
    }
    check(&keys);
    assert!(map.capacity() > before.max(1000), "the table grows");
    map.retain(|key, _| key.0 % 3 == 0);
    keys.retain(|key| key % 3 == 0);
    check(&keys);
    map.clear();
    check(&BTreeSet::new());
    crowd().for_each(|key| insert(map, key));
}

/// The other thread has a chain locked while its closure runs.
#[test]
fn child_changes_a_chain_that_another_thread_had_locked() {
    let map: &'static Map = Box::leak(Box::default());
    crowd().for_each(|key| insert(map, key));
    let ((begin, has_begun), (end, is_over)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let wait = |_: Option<&_>| {
                begin.send(()).unwrap();
                is_over.recv().unwrap();
                None
            };
            map.compute(Key(0), wait, &read());
        });
        has_begun.recv().unwrap();
        let ends = child_ends(|| use_map(map, crowd().collect(), 0));
        // The first that it does is to wait for that chain. While threads of other tests are in the
        // heap it is refused that.
        let remove = || assert!(map.remove(&Key(1 << 20), &read()).is_some());
        let bare_ends = (0..BARE_CHILDREN_MAX).find_map(|_| bare_child_ends(remove));
        end.send(()).unwrap();
        assert!(ends && bare_ends == Some(true), "{ends} {bare_ends:?}");
    });
}

/// A closure that forks keeps its chain also in the child.
#[test]
fn child_keeps_the_chain_that_its_own_thread_had_locked() {
    /// In the chain of key 0.
    const OTHER: u64 = 1 << 20;
    let map: &'static Map = Box::leak(Box::default());
    let mut ends = false;
    let in_child = || {
        let other = std::thread::spawn(move || insert(map, OTHER));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!other.is_finished() && map.get(&Key(OTHER), &read()).is_none());
    };
    let fork = |_: Option<&_>| {
        ends = child_ends(in_child);
        Some(Once::new())
    };
    map.compute(Key(0), fork, &read());
    assert!(ends && map.len() == 1);
    // Again, and the child returns from the closure.
    let mut other = None;
    let fork = |_: Option<&_>| {
        // SAFETY: the child uses only what is tested, and exits below.
        let child = unsafe { libc::fork() };
        if child == 0 {
            other = Some(std::thread::spawn(move || insert(map, OTHER)));
            std::thread::sleep(Duration::from_millis(100));
        } else {
            ends = status_within(child) == 0;
        }
        None
    };
    map.compute(Key(0), fork, &read());
    if let Some(other) = other {
        let is_done = other.join().is_ok();
        let found: Vec<u64> = map.iter(&read()).map(|(key, _)| key.0).collect();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_done || found != [OTHER])) };
    }
    assert!(ends && map.is_empty());
}

/// What is being dropped counts as reclaimed: a child, which does not go on with it, would count it
/// as deferred for ever.
#[test]
fn child_counts_no_map_that_another_thread_drops() {
    const MANY: u64 = 1 << 16;
    /// The value of key 0 tells that it is being dropped, and waits.
    struct Waits(Option<(Sender<()>, Receiver<()>)>);
    impl Drop for Waits {
        fn drop(&mut self) {
            if let Some((begin, is_over)) = &self.0 {
                begin.send(()).unwrap();
                is_over.recv().unwrap();
            }
        }
    }
    let ((begin, has_begun), (end, is_over)) = (channel(), channel());
    let map: RcuHashMap<Key, Waits, BuildHasherDefault<Itself>> = RcuHashMap::default();
    let mut first = Some((begin, is_over));
    for key in 0..MANY {
        map.insert(Key(key), Waits(first.take()), &read());
    }
    map.clear();
    has_begun.recv().unwrap();
    let ends = child_ends(|| {
        barrier().unwrap();
        let sealed = statistics().sealed.bytes;
        assert!(sealed < MANY * size_of::<Key>() as u64, "{sealed}");
    });
    end.send(()).unwrap();
    assert!(ends);
}
