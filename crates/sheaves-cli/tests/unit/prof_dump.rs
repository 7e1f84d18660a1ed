//! Tests of `src/prof/dump.rs`.

use super::*;

const TEXT: &str = "sheaves heap profile 1\nrate_bytes 524288\nis_on 1\nsince_ms 10\n\
                    until_ms 20\ndropped 0\n\
                    site live malloc malloc-64 2 30 1900 40 2500 55aa 7f00\n\
                    site deferred cache my_cache 1 1 72 1 72\nend\nmaps\n\
                    1000-3000 r-xp 00002000 08:01 77    /usr/lib/with a space.so\n\
                    7000-8000 rw-p 00000000 00:00 0     [heap]\n";

#[test]
fn a_dump_is_read() {
    let dump = Dump::parse(TEXT).unwrap();
    assert_eq!((dump.rate_bytes, dump.since_ms, dump.until_ms), (524_288, 10, 20));
    assert_eq!(dump.sites.len(), 2);
    assert_eq!((dump.sites[0].bytes, &dump.sites[0].addresses[..]), (1900, &[0x55aa, 0x7f00][..]));
    assert!(dump.sites[1].is_deferred && dump.sites[1].addresses.is_empty());
    let path = "/usr/lib/with a space.so".to_owned();
    assert_eq!(dump.mappings, [Mapping { start: 0x1000, end: 0x3000, offset: 0x2000, path }]);
}

#[test]
fn what_is_no_dump_is_refused() {
    for (text, wrong) in [
        ("", "first line"),
        ("MALLOC", "first line"),
        ("sheaves heap profile 2\nend\n", "version is 2"),
        ("sheaves heap profile 1\nrate_bytes 1\n", "end is missing"),
        ("sheaves heap profile 1\nrate_bytes many\nend\n", "rate_bytes many"),
        ("sheaves heap profile 1\nsite live malloc x 1 2 3\nend\n", "site live"),
        ("sheaves heap profile 1\nsite live malloc x 1 2 3 4 5 xyz\nend\n", "site live"),
    ] {
        let error = Dump::parse(text).unwrap_err();
        assert!(error.contains(wrong), "{error} lacks {wrong}");
    }
}
