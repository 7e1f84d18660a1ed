//! `PerCpu<T>`: values in every slot, iteration, initialisers, statics, drop.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use sheaves_percpu::slot_count;
use sheaves_percpu::{PerCpu, PerCpuStatic, SlotCell, Zeroed, field};

const THREADS: usize = 6;

/// Adds from many threads at once.
fn from_many_threads(add: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..1000).for_each(|_| add()));
        }
    });
}

#[test]
fn values_of_all_slots_add_up() {
    let hits = PerCpu::<AtomicU64>::zeroed().unwrap();
    from_many_threads(|| {
        // Relaxed: all threads have been joined.
        hits.get().fetch_add(1, Ordering::Relaxed);
    });
    let sum: u64 = hits.iter().map(|slot| slot.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 1000 * THREADS as u64);
}

/// As a number, a value has no owner that drops it; converted back, it contains earlier additions
/// and is dropped as usual.
#[test]
fn values_survive_as_numbers() {
    let drops = Arc::new(AtomicUsize::new(0));
    struct Noted(Arc<AtomicUsize>, SlotCell<u64>);
    impl Drop for Noted {
        fn drop(&mut self) {
            // Relaxed: one thread.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let made = PerCpu::with(|slot| Noted(Arc::clone(&drops), SlotCell::new(slot as u64))).unwrap();
    let sum = || (0..=slot_count() as u64).sum::<u64>();
    let number = made.into_raw();
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    // SAFETY: the number of this value, converted back once.
    let back = unsafe { PerCpu::<Noted>::from_raw(number) };
    assert_eq!(back.iter().map(|noted| noted.1.load()).sum::<u64>(), sum());
    assert_eq!(back.into_raw(), number);
    // SAFETY: as above; `back` was converted into a number again.
    drop(unsafe { PerCpu::<Noted>::from_raw(number) });
    assert_eq!(drops.load(Ordering::Relaxed), slot_count() + 1);
}

#[test]
fn numbers_by_transactions_add_up() {
    let signed = PerCpu::<SlotCell<i64>>::zeroed().unwrap();
    let unsigned = PerCpu::<SlotCell<u64>>::zeroed().unwrap();
    from_many_threads(|| {
        signed.as_cell().sub(3);
        unsigned.add(u64::MAX / 3);
    });
    assert_eq!(signed.sum(), -3000 * THREADS as i64);
    assert_eq!(unsigned.sum(), (u64::MAX / 3).wrapping_mul(1000 * THREADS as u64));
    assert_eq!(signed.iter().map(SlotCell::load).sum::<i64>(), signed.sum());
}

#[test]
fn numbers_are_replaced_where_they_are_as_expected() {
    let maximum = PerCpu::<SlotCell<usize>>::zeroed().unwrap();
    let next = AtomicUsize::new(1);
    from_many_threads(|| {
        // Relaxed: the numbers come from a counter.
        let found = next.fetch_add(1, Ordering::Relaxed);
        loop {
            let known = maximum.as_cell().load();
            if known >= found || maximum.as_cell().cmp_store(known, found) {
                break;
            }
        }
    });
    assert_eq!(maximum.iter().map(SlotCell::load).max(), Some(1000 * THREADS));
    assert!(!maximum.as_cell().cmp_store(usize::MAX, 0));
}

struct Requests {
    slowest: AtomicU32,
    good: SlotCell<u64>,
    bytes: Bytes,
}

struct Bytes {
    read: SlotCell<i64>,
    written: SlotCell<i64>,
}

// SAFETY: zero is a valid value of all fields.
unsafe impl Zeroed for Requests {}

#[test]
fn fields_of_values() {
    let requests = PerCpu::<Requests>::zeroed().unwrap();
    from_many_threads(|| {
        requests.cell(field!(Requests, good)).add(1);
        requests.cell(field!(Requests, bytes.read)).add(100);
        requests.cell(field!(Requests, bytes.written)).sub(1);
        requests.get().slowest.fetch_max(17, Ordering::Relaxed);
    });
    let all = 1000 * THREADS as i64;
    assert_eq!(requests.cell(field!(Requests, good)).sum() as i64, all);
    assert_eq!(requests.cell(field!(Requests, bytes.read)).sum(), 100 * all);
    assert_eq!(requests.iter().map(|slot| slot.bytes.written.load()).sum::<i64>(), -all);
    let slowest = requests.iter().map(|slot| slot.slowest.load(Ordering::Relaxed)).max();
    assert_eq!(slowest, Some(17));
}

/// An initialiser runs once for each slot, and each value is dropped once.
#[test]
fn values_with_an_initialiser() {
    let alive = Arc::new(());
    let mut asked = Vec::new();
    let mut values = PerCpu::with(|slot| {
        asked.push(slot);
        (Arc::clone(&alive), AtomicUsize::new(slot))
    })
    .unwrap();
    let rows = slot_count() + 1;
    assert!(asked.iter().copied().eq(0..rows));
    assert_eq!(Arc::strong_count(&alive), 1 + rows);
    from_many_threads(|| {
        values.get().1.fetch_add(1000, Ordering::Relaxed);
    });
    let sum: usize = values.iter().map(|(_, number)| number.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 1000 * 1000 * THREADS + rows * (rows - 1) / 2);
    values.iter_mut().for_each(|(_, number)| *number.get_mut() = 1);
    assert_eq!(values.iter().count(), rows);
    drop(values);
    assert_eq!(Arc::strong_count(&alive), 1);
    // The next object at this place is zero, on every slot.
    let next: Vec<_> = (0..100).map(|_| PerCpu::<[u64; 2]>::zeroed().unwrap()).collect();
    assert!(next.iter().all(|value| value.iter().all(|slot| *slot == [0, 0])));
}

#[test]
fn an_initialiser_that_panics_leaves_nothing() {
    let alive = Arc::new(());
    let last = slot_count();
    let made = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        PerCpu::with(|slot| {
            assert!(slot < last, "the initialiser gives up");
            Arc::clone(&alive)
        })
    }));
    assert!(made.is_err());
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// The value of one slot panics when it is dropped.
struct Panicking {
    slot: usize,
    _alive: Arc<()>,
}

impl Drop for Panicking {
    fn drop(&mut self) {
        assert!(self.slot != 0, "a destructor that panics");
    }
}

#[test]
fn destructor_that_panics_leaves_nothing() {
    let alive = Arc::new(());
    let value = |slot| Panicking { slot, _alive: Arc::clone(&alive) };
    let values = PerCpu::with(value).unwrap();
    let dropped = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(values)));
    assert!(dropped.is_err());
    assert_eq!(Arc::strong_count(&alive), 1);
}

static STATIC: PerCpuStatic<[AtomicU64; 3]> = PerCpuStatic::new();

#[test]
fn statics_are_there_from_the_beginning() {
    assert!(STATIC.iter().all(|slot| slot[1].load(Ordering::Relaxed) == 0));
    from_many_threads(|| {
        STATIC.get()[1].fetch_add(2, Ordering::Relaxed);
    });
    let sum: u64 = STATIC.iter().map(|slot| slot[1].load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 2000 * THREADS as u64);
    assert!(STATIC.try_all().is_ok());
}

/// The memory that a `PerCpuStatic` gets at its first use is freed when it is not a static and is
/// dropped.
#[test]
fn lazy_values_are_dropped() {
    for round in 0..1000 {
        let lazy = PerCpuStatic::<AtomicU64>::new();
        assert_eq!(lazy.get().fetch_add(1, Ordering::Relaxed), 0, "round {round}");
    }
    // One that was never used.
    drop(PerCpuStatic::<AtomicU64>::default());
}

#[test]
fn values_show_themselves() {
    let value = PerCpu::<SlotCell<u64>>::zeroed().unwrap();
    value.add(41);
    assert!(format!("{value:?}").contains("SlotCell(41)"));
    assert!(format!("{:?}", field!(Requests, good)).contains("byte"));
}
