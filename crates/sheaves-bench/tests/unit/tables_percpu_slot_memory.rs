//! Tests of `src/tables/percpu/slot_memory.rs`.

use super::*;

#[test]
fn contenders_take_turns_on_one_mapping() {
    // Other tests may have another one made meanwhile, but none that is used is taken.
    let memory = SlotMemory::new(2, 64 << 10, 1 << 20);
    let shared = memory.shared().unwrap().unwrap();
    let own = SlotMemory::private(1 << 20).unwrap();
    let other = SlotMemory::private(1 << 20).unwrap();
    assert!(own.start() != shared.start() && own.start() != other.start());
    assert!(SlotMemory::new(0, 64 << 10, 1 << 20).shared().unwrap().is_none());
}

#[test]
fn a_mapping_is_kept_while_it_will_do() {
    let kept = Mutex::new(None);
    let unused = |known: &Arc<Mapping>| Arc::strong_count(known) == 1;
    let first = mapping(&kept, unused, 1 << 20).unwrap();
    let second = mapping(&kept, unused, 1 << 20).unwrap();
    assert_ne!(first.start(), second.start());
    let start = second.start();
    drop(second);
    assert_eq!(mapping(&kept, unused, 1 << 16).unwrap().start(), start);
}

#[test]
fn rows_have_room_for_whole_units() {
    let memory = SlotMemory::new(1, 256 << 10, 1);
    assert!(memory.row_bytes.is_multiple_of(256 << 10));
    assert!(!memory.stride().is_power_of_two());
}
