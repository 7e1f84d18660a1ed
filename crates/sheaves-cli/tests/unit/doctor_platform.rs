//! Tests of `src/doctor/platform.rs`.

use super::*;

#[test]
fn entry_is_found_by_its_key_not_by_its_value() {
    let vector: Vec<u8> =
        [(28_u64, 32_u64), (27, 28), (0, 0)].iter().fold(Vec::new(), |mut bytes, pair| {
            bytes.extend(pair.0.to_ne_bytes());
            bytes.extend(pair.1.to_ne_bytes());
            bytes
        });
    assert_eq!(entry(&vector, AT_RSEQ_ALIGN), Some(32));
    assert_eq!(entry(&vector, AT_RSEQ_FEATURE_SIZE), Some(28));
    assert_eq!(entry(&vector, 6), None);
}

#[test]
fn version_is_read_from_banners_of_distributions() {
    let debian = "GNU C Library (Debian GLIBC 2.36-9+deb12u14) stable release version 2.36.\n";
    assert_eq!(version_in(debian), Some((2, 36)));
    let fedora = "GNU C Library (GNU libc) development release version 2.41.9000.\n";
    assert_eq!(version_in(fedora), Some((2, 41)));
    assert_eq!(version_in("musl"), None);
}
