//! What unused per-CPU memory costs: processes with 64 virtual slots, 2 of them used.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::PerCpu;
use sheaves_percpu::internal::BLOCK_BYTES;
use sheaves_percpu::memory::{self, Handle};
use sheaves_sys::{map, space};

use crate::{alone, in_own_configuration, is_process_for};

const OBJECTS: usize = 1_000_000;
const OBJECT_BYTES: usize = 16;
const SLOTS: &[(&str, &str)] = &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")];

type Object = PerCpu<[AtomicU64; 2]>;

/// Resident bytes of this process, exactly: threads keep parts of the counts in `statm`. Linux 6.1
/// may leave a mapping out when another thread waits to change mappings, so this reads until two
/// readings are the same.
fn resident_bytes() -> usize {
    let read = || {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
    };
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

/// How a program keeps an object.
trait Own: Send + Sync + Sized {
    /// The largest cost of a million on two slots, in hundredths of the objects' size in one slot.
    const COST_MAX: usize;

    fn make() -> Self;
    /// Adds to both of its words, on the current slot.
    fn write(&self);
}

impl Own for Object {
    const COST_MAX: usize = 210;

    fn make() -> Object {
        Object::zeroed().unwrap()
    }

    fn write(&self) {
        for word in self.get() {
            // Relaxed: there is no other thread.
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A handle that is freed when dropped.
struct Handled(Handle);

impl Own for Handled {
    // One more byte for each object, which says whether it is allocated.
    const COST_MAX: usize = 210 + 100 / OBJECT_BYTES;

    fn make() -> Handled {
        Handled(memory::alloc(OBJECT_BYTES, 8).unwrap())
    }

    fn write(&self) {
        for byte in [0, 8] {
            // SAFETY: the object is allocated, and its words are changed by transactions only.
            unsafe { self.0.cell::<usize>(byte) }.add(1);
        }
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        // SAFETY: allocated until this drop.
        unsafe { memory::free(self.0) }.unwrap();
    }
}

/// In an order by the multiplier of Knuth's MMIX.
fn shuffle<O>(objects: &mut [O]) {
    let mut state = 1_u64;
    for index in (1..objects.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        objects.swap(index, (state >> 33) as usize % (index + 1));
    }
}

/// The order in which objects are freed.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Allocated,
    Random,
}

/// Allocates a million objects, writes to them on two slots, and frees them.
fn come_and_go<O: Own>(order: Order) {
    // A huge page elsewhere, as behind the stack of a thread, may come at any time and would count.
    // SAFETY: integers only.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    // Memory other than per-CPU memory is allocated before the measurement.
    let mut objects: Vec<O> = Vec::with_capacity(OBJECTS);
    objects.resize_with(OBJECTS, O::make);
    objects.clear();
    memory::trim();
    // So is the memory that the first thread of a process costs.
    std::thread::spawn(|| ()).join().unwrap();
    let before = resident_bytes();
    objects.resize_with(OBJECTS, O::make);
    let allocated = resident_bytes() - before;
    let slot_bytes = OBJECTS * OBJECT_BYTES;
    let write = || objects.iter().for_each(O::write);
    write();
    std::thread::scope(|scope| {
        scope.spawn(write);
    });
    assert_eq!(memory::statistics().unwrap().slots_used, 2);
    // What describes them went back, too, when the first million was freed.
    assert!(allocated * 20 >= slot_bytes, "{allocated} bytes describe the objects");
    let peak = resident_bytes() - before;
    if order == Order::Random {
        shuffle(&mut objects);
    }
    objects.clear();
    let freed = resident_bytes().saturating_sub(before);
    memory::trim();
    let trimmed = resident_bytes().saturating_sub(before);
    let share = |bytes: usize| bytes as f64 / slot_bytes as f64;
    println!(
        "{OBJECTS} objects of {OBJECT_BYTES} B, in bytes of one slot: allocated {:.3}, written on \
         two slots {:.3}, freed {:.4}, trimmed {:.4}",
        share(allocated),
        share(peak),
        share(freed),
        share(trimmed)
    );
    assert!(
        peak * 100 <= slot_bytes * O::COST_MAX,
        "{peak} bytes for {slot_bytes} in each of two slots"
    );
    let pages_max = match order {
        // A few pages are more than a hundredth only where they are large.
        Order::Allocated => 8,
        // Each object that stays in the sheaf of the slot may be in a chunk of its own: its page,
        // and three of 16 that have none, on two slots; and half as much again.
        Order::Random => 3 * 127 * 4,
    };
    let rest = (peak / 100).max(pages_max * map::page_bytes());
    assert!(freed <= rest, "{freed} bytes are left of {peak}");
    assert!(trimmed <= freed);
    let statistics = memory::statistics().unwrap();
    assert_eq!(statistics.allocator.objects(), 0);
}

/// Runs in a separate process, see [`idle_slots_cost_nothing`].
#[test]
fn million_values() {
    if is_process_for("resident::million_values") {
        come_and_go::<Object>(Order::Allocated);
    }
}

/// Runs in a separate process, see [`idle_slots_cost_nothing`].
#[test]
fn million_handles() {
    if is_process_for("resident::million_handles") {
        come_and_go::<Handled>(Order::Allocated);
    }
}

/// Runs in a separate process, see [`idle_slots_cost_nothing`].
#[test]
fn million_values_in_random_order() {
    if is_process_for("resident::million_values_in_random_order") {
        come_and_go::<Object>(Order::Random);
    }
}

#[test]
fn idle_slots_cost_nothing() {
    let _alone = alone();
    for test in ["million_values", "million_handles", "million_values_in_random_order"] {
        let test = &format!("resident::{test}");
        let Some(output) = in_own_configuration(test, SLOTS) else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|line| line.contains("objects of"));
        println!("{test}: {}", line.unwrap_or_default());
    }
}

/// A program that links this and does nothing with it has at most one open row.
#[test]
fn nothing_is_paid_before_the_first_object() {
    if !is_process_for("resident::nothing_is_paid_before_the_first_object") {
        in_own_configuration("resident::nothing_is_paid_before_the_first_object", SLOTS);
        return;
    }
    assert_eq!(memory::statistics(), None);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let bytes: usize = maps.lines().filter_map(bytes_in_rows).sum();
    assert!(bytes <= BLOCK_BYTES.max(map::page_bytes()), "{bytes} bytes of rows\n{maps}");
}

/// Bytes of a mapping among the rows that can be touched; `None` for other mappings.
pub(crate) fn bytes_in_rows(line: &str) -> Option<usize> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).unwrap();
    let [rows, _] = space::Area::Spaces.ranges();
    let is_row = rest.starts_with("rw-p") && rows.contains(&number(start));
    is_row.then(|| number(end) - number(start))
}
