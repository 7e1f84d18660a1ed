//! Tests of `src/prof/dump.rs`.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

const TEXT: &str = "sheaves heap profile 1\nrate_bytes 524288\nis_on 1\nsince_ms 10\n\
                    until_ms 20\ndropped 0\n\
                    site live malloc malloc-64 2 30 1900 40 2500 55aa 7f00\n\
                    site deferred cache my_cache 1 1 72 1 72\nend\nmaps\n\
                    1000-3000 r-xp 00002000 08:01 77    /usr/lib/with a space.so\n\
                    7000-8000 rw-p 00000000 00:00 0     [heap]\nend\n";

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
fn no_part_of_a_dump_is_taken_for_the_whole() {
    let whole = [TEXT.find("maps").unwrap(), TEXT.find("maps\n").unwrap() + 5, TEXT.len()];
    for bytes in (0..=TEXT.len()).filter(|bytes| !whole.contains(bytes)) {
        assert!(Dump::parse(&TEXT[..bytes]).is_err(), "{bytes}");
    }
}

proptest! {
    #[test]
    fn a_dump_is_written_as_it_is_read(
        sites in vec(
            (any::<bool>(), "[a-z-]{1,9}", any::<[u64; 5]>(), vec(any::<u64>(), 0..9)),
            0..9,
        ),
        mappings in vec((any::<u32>(), any::<u32>(), any::<u64>(), "/[ -~]{0,20}[!-~]"), 0..9),
        numbers in any::<[u64; 4]>(),
        process in option::of("[ -~]{1,20}"),
        short in 0..SHORT.len(),
    ) {
        let site = |(is_deferred, name, numbers, addresses): (bool, String, [u64; 5], _)| {
            let [samples, objects, bytes, all_objects, all_bytes] = numbers;
            let (kind, cache) = (name.clone(), name);
            Site {
                is_deferred,
                kind,
                cache,
                samples,
                objects,
                bytes,
                all_objects,
                all_bytes,
                addresses,
            }
        };
        let mapping = |(start, bytes, offset, path): (u32, u32, u64, String)| {
            let (start, end) = (u64::from(start), u64::from(start) + u64::from(bytes));
            Mapping { start, end, offset, path }
        };
        let [rate_bytes, since_ms, until_ms, dropped] = numbers;
        let sites = sites.into_iter().map(site).collect();
        let mappings = mappings.into_iter().map(mapping).collect();
        let short = SHORT[short].1;
        let dump =
            Dump { process, rate_bytes, since_ms, until_ms, dropped, short, sites, mappings };
        prop_assert_eq!(Dump::parse(&dump.to_string()), Ok(dump));
    }

    /// Whatever the lines are: the reader ends, and takes no more than a line has.
    #[test]
    fn no_text_harms_the_reader(
        text in "[ -~\n]{0,200}",
        at in 0..TEXT.len(),
        byte in any::<u8>(),
    ) {
        let _ = Dump::parse(&format!("sheaves heap profile 1\n{text}"));
        let mut changed = TEXT.as_bytes().to_vec();
        changed[at] = byte;
        if let Ok(text) = str::from_utf8(&changed) {
            let _ = Dump::parse(text);
        }
    }
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
