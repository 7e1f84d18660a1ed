use super::*;

const MIB: usize = 1 << 20;

/// One test, since others would use the same words.
#[test]
fn a_word_says_the_size_of_one_block_only() {
    // Each address of 48 MiB is known alone, however many have its place.
    let addresses = || (0..48 * MIB / PAGE_BYTES).map(|page| 0x7f12_3450_0000 + page * PAGE_BYTES);
    for address in addresses().step_by(263) {
        note(address, 3 * MIB);
        assert!(addresses().all(|other| (bytes_of(other) == 3 * MIB) == (other == address)));
        assert_eq!(bytes_of(address + 16), 0);
        forget(address ^ PAGE_BYTES);
        assert_eq!(bytes_of(address), 3 * MIB);
        forget(address);
        assert!(addresses().all(|other| bytes_of(other) == 0));
    }
    // What has no room in a word is not noted.
    note(1 << 52, MIB);
    note(0, PAGE_BYTES << PAGES_BITS);
    assert!(WORDS.iter().all(|word| word.load(Ordering::Relaxed) == 0));
}
