//! Readers, writers and resizes at once: readers find whole values, and every change takes effect.

use core::hash::BuildHasher;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

use super::{Random, Spread, engines};

const WRITERS: u64 = 3;
const READERS: u64 = 3;
/// Keys of each writer.
const KEYS: u64 = 4000;

/// A value with a checksum over itself and its key.
#[derive(Clone, Copy)]
struct Sealed {
    key: u64,
    serial: u64,
    sum: u64,
}

impl Sealed {
    fn new(key: u64, serial: u64) -> Sealed {
        Sealed { key, serial, sum: Sealed::sum(key, serial) }
    }

    fn sum(key: u64, serial: u64) -> u64 {
        key.wrapping_mul(31).wrapping_add(serial).rotate_left(17) ^ 0xA5A5
    }

    fn check(&self, key: u64) {
        assert_eq!((self.key, self.sum), (key, Sealed::sum(key, self.serial)));
    }
}

/// Its destructor breaks the checksum, so that a reader after it would detect that.
struct Boxed(Box<Sealed>);

impl Drop for Boxed {
    fn drop(&mut self) {
        self.0.sum = !self.0.sum;
    }
}

trait Value: Send + Sync + 'static {
    fn of(sealed: Sealed) -> Self;
    fn sealed(&self) -> &Sealed;
}

impl Value for Sealed {
    fn of(sealed: Sealed) -> Sealed {
        sealed
    }
    fn sealed(&self) -> &Sealed {
        self
    }
}

impl Value for Boxed {
    fn of(sealed: Sealed) -> Boxed {
        Boxed(Box::new(sealed))
    }
    fn sealed(&self) -> &Sealed {
        &self.0
    }
}

fn time() -> Duration {
    let asked = std::env::var("SHEAVES_STORM_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_millis(if engines::is_small() { 200 } else { asked.unwrap_or(1) * 1000 })
}

/// A writer's record of its keys: the serial number of each, 0 for none.
fn write<V: Value, S: BuildHasher>(
    map: &RcuHashMap<u64, V, S>,
    stop: &AtomicBool,
    writer: u64,
    floors: &[AtomicU64],
) -> Vec<u64> {
    let mut serials = vec![0; KEYS as usize];
    let mut random = Random::new(writer + 1);
    let mut serial = 0;
    while !stop.load(Ordering::Relaxed) {
        // Up to all keys, then down to a few, so that a resize is nearly always in progress.
        let share = [4, 4, 1, 0][(serial / (2 * KEYS) % 4) as usize];
        for _ in 0..64 {
            serial += 1;
            let index = random.below(KEYS);
            let (key, known) = (writer * KEYS + index, &mut serials[index as usize]);
            let fresh = V::of(Sealed::new(key, serial));
            let guard = read();
            let before = if random.below(5) < share {
                *known = serial;
                match random.below(3) {
                    0 => map.compute(key, |_| Some(fresh), &guard).map(|_| None),
                    _ => Some(map.insert(key, fresh, &guard)),
                }
            } else {
                *known = 0;
                Some(map.remove(&key, &guard))
            };
            if let Some(Some(old)) = before {
                old.sealed().check(key);
            }
            // Release pairs with the Acquire of the readers, which must not find an older serial.
            let floor = if *known == 0 { 0 } else { serial };
            floors[key as usize].store(floor, Ordering::Release);
        }
    }
    serials
}

/// Checks that a key whose serial number is known is found, unless it was changed meanwhile, and
/// never with an older serial.
fn look<V: Value, S: BuildHasher>(
    map: &RcuHashMap<u64, V, S>,
    stop: &AtomicBool,
    reader: u64,
    floors: &[AtomicU64],
    found: &AtomicU64,
) {
    let mut random = Random::new(reader + 100);
    while !stop.load(Ordering::Relaxed) {
        let key = random.below(WRITERS * KEYS);
        // Acquire, both, pair with the Release of the writer.
        let floor = floors[key as usize].load(Ordering::Acquire);
        let guard = read();
        let Some(value) = map.get(&key, &guard) else {
            if floor != 0 {
                // The writer must have changed it since; it publishes that soon.
                let begin = Instant::now();
                while floors[key as usize].load(Ordering::Acquire) == floor {
                    assert!(begin.elapsed() < Duration::from_secs(60), "key {key} was not found");
                    std::thread::yield_now();
                }
            }
            continue;
        };
        let serial = value.sealed().serial;
        assert!(serial >= floor, "key {key}: {serial} is older than {floor}");
        for _ in 0..random.below(50) {
            value.sealed().check(key);
        }
        assert_eq!(value.sealed().serial, serial);
        found.fetch_add(1, Ordering::Relaxed);
    }
}

fn storm<V: Value + 'static, S: BuildHasher + Default + Sync>() {
    let map = RcuHashMap::<u64, V, S>::default();
    let floors: Vec<_> = (0..WRITERS * KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    let (map, floors, stop, found) = (&map, &floors[..], &stop, &found);
    let known: Vec<Vec<u64>> = std::thread::scope(|scope| {
        for reader in 0..READERS {
            scope.spawn(move || look(map, stop, reader, floors, found));
        }
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write(map, stop, writer, floors)))
            .collect();
        let begin = Instant::now();
        // On a busy machine a reader may wait for a writer all that time.
        while begin.elapsed() < time() || found.load(Ordering::Relaxed) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(60), "no reader found anything");
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let guard = read();
    for (key, serial) in known.iter().flatten().enumerate() {
        let value = map.get(&(key as u64), &guard);
        assert_eq!(value.map_or(0, |value| value.sealed().serial), *serial, "key {key}");
    }
    let there = known.iter().flatten().filter(|serial| **serial != 0).count();
    assert_eq!((map.len(), map.iter(&guard).count()), (there, there));
}

#[test]
fn readers_find_what_is_there() {
    storm::<Sealed, RandomState>();
}

#[test]
fn readers_find_what_is_there_with_destructors() {
    storm::<Boxed, RandomState>();
}

#[test]
fn readers_find_what_is_there_in_long_chains() {
    storm::<Sealed, Spread<6>>();
}

/// All threads change one key, and every change must count.
#[test]
fn changes_of_one_key_exclude_each_other() {
    let rounds = if engines::is_small() { 500 } else { 20_000 };
    let map = RcuHashMap::<u8, u64, RandomState>::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..rounds {
                    map.compute(7, |count| Some(count.map_or(1, |count| count + 1)), &read());
                }
            });
        }
    });
    assert_eq!(map.get(&7, &read()), Some(&(4 * rounds)));
}

/// A lock that is held for long: the other threads sleep, and are woken.
#[test]
fn thread_that_waits_for_a_chain_is_woken() {
    let map = RcuHashMap::<u8, u64, RandomState>::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let slow = |count: Option<&u64>| {
                        std::thread::sleep(Duration::from_millis(1));
                        Some(count.map_or(1, |count| count + 1))
                    };
                    map.compute(7, slow, &read());
                }
            });
        }
    });
    assert_eq!(map.get(&7, &read()), Some(&80));
}
