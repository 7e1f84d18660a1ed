use super::*;

const PAGE: usize = 4096;

/// A table of blocks, each as large as its number says.
fn table(blocks: usize) -> Table {
    let mut table = Table::at(0);
    for number in 1..=blocks {
        assert!(table.insert(Entry { address: number * PAGE, bytes: number }));
    }
    table
}

fn has(table: &mut Table, number: usize) -> bool {
    let found = table.find(number * PAGE);
    found.is_some_and(|index| table.entry(index).bytes == number)
}

#[test]
fn a_table_grows_in_one_step() {
    let mut table = table(1000);
    assert_eq!((table.capacity(), table.count), (2048, 1000));
    assert!((1..=1000).all(|number| has(&mut table, number)));
    assert_eq!(table.bytes, 500 * 1001);
}

/// Each removal is ended by a fork after each of its stores.
#[test]
fn a_half_made_removal_is_put_in_order() {
    const BLOCKS: usize = 100;
    for removed in 1..=BLOCKS {
        for stores in 0..20 {
            let mut table = table(BLOCKS);
            let index = table.find(removed * PAGE).unwrap();
            clear_partly(&mut table, index, stores);
            table.recover();
            let is_there = has(&mut table, removed);
            let others = (1..=BLOCKS).filter(|number| *number != removed);
            assert!(others.clone().all(|number| has(&mut table, number)), "{removed} {stores}");
            let all = (0..table.capacity()).filter(|at| table.entry(*at).address != 0).count();
            assert_eq!(all, table.count);
            assert!(stores == 0 && is_there || (BLOCKS - 1..=BLOCKS).contains(&all));
            // Its address is given out again.
            assert!(table.insert(Entry { address: removed * PAGE, bytes: removed }));
            assert!((1..=BLOCKS).all(|number| has(&mut table, number)));
            assert_eq!((table.count, table.bytes), (BLOCKS, BLOCKS * (BLOCKS + 1) / 2));
        }
    }
}

/// [`Table::clear`], which ends after `stores` stores.
fn clear_partly(table: &mut Table, index: usize, mut stores: usize) {
    let mask = table.capacity() - 1;
    let (mut hole, mut next) = (index, (index + 1) & mask);
    let mut write = |table: &mut Table, place: usize, entry: Entry| {
        for step in 0..2 {
            if stores == 0 {
                return false;
            }
            stores -= 1;
            match step {
                0 => table.entry(place).bytes = entry.bytes,
                _ => table.entry(place).address = entry.address,
            }
        }
        true
    };
    while table.entry(next).address != 0 {
        let entry = *table.entry(next);
        let home = table.home(entry.address);
        if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
            if !write(table, hole, entry) {
                return;
            }
            hole = next;
        }
        next = (next + 1) & mask;
    }
    write(table, hole, Entry { address: 0, bytes: 0 });
}

#[test]
fn ranges_without_a_block_are_given_up() {
    let mut table = table(3);
    table.in_doubt += 1;
    table.keep(Entry { address: 9 * PAGE, bytes: 9 });
    assert_eq!(table.kept, 1);
    table.recover();
    assert_eq!((table.count, table.bytes, table.kept, table.in_doubt), (3, 6, 0, 0));
    assert!(table.take_kept(|_| true).is_none());
}
