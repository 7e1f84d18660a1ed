use super::*;

const PAGE: usize = 4096;

/// A table of blocks, each as large as its number says.
fn table(blocks: usize) -> Table {
    let mut table = Table::new();
    for number in 1..=blocks {
        assert!(table.insert(Entry { address: number * PAGE, bytes: number }));
    }
    table
}

fn has(table: &mut Table, number: usize) -> bool {
    let found = table.entries.find(number * PAGE);
    found.is_some_and(|index| table.entries.entry(index).bytes == number)
}

#[test]
fn a_table_grows() {
    let mut table = table(1000);
    assert_eq!((table.entries.capacity(), table.count), (2048, 1000));
    assert!((1..=1000).all(|number| has(&mut table, number)));
    assert_eq!(table.bytes, 500 * 1001);
}

#[test]
fn a_removal_leaves_the_others_in_their_place() {
    const BLOCKS: usize = 100;
    for removed in 1..=BLOCKS {
        let mut table = table(BLOCKS);
        let index = table.entries.find(removed * PAGE).unwrap();
        assert_eq!(table.remove(index).bytes, removed);
        assert!((1..=BLOCKS).all(|number| has(&mut table, number) == (number != removed)));
        assert_eq!((table.count, table.bytes), (BLOCKS - 1, BLOCKS * (BLOCKS + 1) / 2 - removed));
    }
}

#[test]
fn ranges_without_a_block_are_kept_and_taken_again() {
    let mut table = table(3);
    table.keep(Entry { address: 9 * PAGE, bytes: 9 });
    assert_eq!(
        (table.count, table.bytes, table.entries.count() - table.count, table.in_doubt),
        (3, 6, 1, 0)
    );
    assert!(
        table.entries.find(9 * PAGE).is_none()
            && table.take_kept(|range| range.bytes > 9).is_none()
    );
    assert_eq!(table.take_kept(|_| true).map(|range| range.address), Some(9 * PAGE));
    assert_eq!((table.entries.count() - table.count, table.in_doubt), (0, 1));
}

#[test]
fn a_search_for_a_kept_range_goes_on_where_the_last_one_ended() {
    let mut table = table(1000);
    assert_eq!(table.kept_pieces(), 0);
    for number in 2001..=2010 {
        table.keep(Entry { address: number * PAGE, bytes: number });
    }
    let pieces = table.kept_pieces();
    assert_eq!(pieces, 2048 / PIECE);
    assert!((0..3 * pieces).all(|_| table.take_kept(|range| range.bytes > 2010).is_none()));
    // Those of the last pieces are found in the last ones.
    let mut calls = 0;
    while table.kept_pieces() != 0 {
        table.take_kept(|_| true);
        calls += 1;
    }
    assert!(calls > 10 && calls <= pieces + 10, "{calls} calls");
    assert_eq!(table.in_doubt, 10);
}
