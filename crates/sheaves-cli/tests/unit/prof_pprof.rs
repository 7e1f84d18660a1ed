//! Tests of `src/prof/pprof.rs`.

use std::io::Read as _;

use prost::Message as _;

use super::{Profile, encode, proto};
use crate::prof::dump::Dump;
use crate::prof::symbols::Symbols;

#[test]
fn a_file_has_all_samples() {
    let text = "sheaves heap profile 1\nrate_bytes 1024\nsince_ms 5\nuntil_ms 9\n\
                site live malloc malloc-64 2 30 1900 40 2500 1001 1002\n\
                site deferred cache route 1 4 72 5 90 1002\nend\n";
    let dump = Dump::parse(text).unwrap();
    let file = encode(&Profile::of(dump, Symbols::new(Vec::new()), String::new()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&*file).read_to_end(&mut bytes).unwrap();
    let found = proto::Profile::decode(&*bytes).unwrap();
    let string = |index: i64| found.string_table[index as usize].as_str();
    assert_eq!((string(0), found.period, found.duration_nanos), ("", 1024, 4_000_000));
    let types: Vec<_> = found.sample_type.iter().map(|value| string(value.r#type)).collect();
    assert_eq!(types, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    let values: Vec<_> = found.sample.iter().map(|sample| &sample.value[..]).collect();
    assert_eq!(values, [[40, 2500, 30, 1900], [0, 0, 4, 72]]);
    // The second address of the first stack is that of the second.
    assert_eq!(found.sample[0].location_id[1], found.sample[1].location_id[0]);
    let state = found.sample[1].label.iter().find(|label| string(label.key) == "state");
    assert_eq!(string(state.unwrap().str), "deferred");
}
