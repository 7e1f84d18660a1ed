//! Tests of tags in the word of a bucket.

use super::*;

#[test]
fn tags_are_found_where_they_are() {
    let tags = [0x80, 0x81, 0xFF, 0x00, 0x80, 0xC3_u64];
    let word = tags.iter().rev().fold(0, |word, tag| (word << 8) | tag) | !TAGS;
    for tag in 0x80..0x100_u64 {
        let found: u64 = Places::matching(word, tag).map(|place| 1 << place).sum();
        let meant: u64 = (0..6).filter(|place| tags[*place] == tag).map(|p| 1 << p).sum();
        assert_eq!(found & meant, meant, "{tag:x}");
        for other in (0..6).filter(|place| (found & !meant) >> place & 1 == 1) {
            assert_eq!(tags[other], tag ^ 1, "{tag:x}");
        }
    }
    assert!(Places::occupied(word).eq([0, 1, 2, 4, 5]));
    assert!(Places::vacant(word).eq([3]));
}
