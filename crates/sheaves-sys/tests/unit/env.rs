//! Tests of private items of `env`.

use super::*;

#[test]
fn value_needs_the_whole_name() {
    assert_eq!(value_of(b"SHEAVES_X=1", "SHEAVES_X"), Some(&b"1"[..]));
    assert_eq!(value_of(b"SHEAVES_XY=1", "SHEAVES_X"), None);
    assert_eq!(value_of(b"SHEAVES_X", "SHEAVES_X"), None);
}

#[test]
fn limits_are_bytes_percentages_or_auto() {
    let limits: [(&[u8], Option<Limit>); 12] = [
        (b"auto", Some(Limit::Auto)),
        (b"1048576", Some(Limit::Bytes(1 << 20))),
        (b"256M", Some(Limit::Bytes(256 << 20))),
        (b"3G", Some(Limit::Bytes(3 << 30))),
        (b"1T", Some(Limit::Bytes(1 << 40))),
        (b"50%", Some(Limit::Percent(50))),
        (b"0%", None),
        (b"101%", None),
        (b"1023K", None),
        (b"17179869184G", None),
        (b"256m", None),
        (b"", None),
    ];
    for (text, limit) in limits {
        assert_eq!(parse_limit(text), limit, "{text:?}");
    }
}

#[test]
fn path_is_found_both_ways() {
    assert!(lookup("PATH", |value| !value.is_empty()).unwrap());
    assert!(lookup_in_proc("PATH", |value| !value.is_empty()).unwrap());
    assert!(lookup("SHEAVES_SURELY_UNSET", |_| ()).is_none());
}
