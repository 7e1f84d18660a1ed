//! What comes with features: `foldhash`, `rayon`, `serde`.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelExtend, ParallelIterator};
use serde::Serializer;
use serde::ser::{Impossible, Serialize};
use sheaves::map::{RcuHashMap, RcuHashSet};
use sheaves::rcu::{RcuBox, RcuCell, RcuOption, read};

const COUNT: u64 = 20_000;

#[test]
fn what_is_written_is_read() {
    let map: RcuHashMap<String, Vec<u64>> =
        (0..9).map(|key| (key.to_string(), vec![key; key as usize])).collect();
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(serde_json::to_string(&map.pin()).unwrap(), text);
    assert_eq!(serde_json::from_str::<RcuHashMap<String, Vec<u64>>>(&text).unwrap(), map);
    assert!(serde_json::from_str::<RcuHashMap<String, u64>>("[1]").is_err());

    let set: RcuHashSet<u64> = (0..9).collect();
    let text = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<RcuHashSet<u64>>(&text).unwrap(), set);
    assert!(serde_json::from_str::<RcuHashSet<u64>>("7").is_err());

    let cells = (RcuCell::new(7), RcuOption::new("a".to_owned()), RcuOption::<u64>::empty());
    let text = serde_json::to_string(&(cells, RcuBox::new(8))).unwrap();
    assert_eq!(text, r#"[[7,"a",null],8]"#);
    type Read = ((RcuCell<u64>, RcuOption<String>, RcuOption<u64>), RcuBox<u64>);
    let ((seven, a, none), eight) = serde_json::from_str::<Read>(&text).unwrap();
    assert_eq!((seven.into_inner(), *eight), (7, 8));
    assert_eq!((a.load(&read()).map(String::as_str), none.load(&read())), (Some("a"), None));
}

/// A format that needs the length first. It writes nothing else.
struct Lengths<'a>(&'a Cell<Option<usize>>);

macro_rules! refuse {
    ($($name:ident$(<$type:ident>)?($($argument:ty),*) -> $result:ty;)*) => {
        $(
            fn $name$(<$type: ?Sized + Serialize>)?(
                self,
                $(_: $argument),*
            ) -> Result<$result, fmt::Error> {
                Err(fmt::Error)
            }
        )*
    };
}

type Never = Impossible<(), fmt::Error>;

impl Serializer for Lengths<'_> {
    type Ok = ();
    type Error = fmt::Error;
    type SerializeSeq = Never;
    type SerializeTuple = Never;
    type SerializeTupleStruct = Never;
    type SerializeTupleVariant = Never;
    type SerializeMap = Never;
    type SerializeStruct = Never;
    type SerializeStructVariant = Never;

    fn serialize_seq(self, length: Option<usize>) -> Result<Never, fmt::Error> {
        self.0.set(length);
        Err(fmt::Error)
    }

    fn serialize_map(self, length: Option<usize>) -> Result<Never, fmt::Error> {
        self.serialize_seq(length)
    }

    refuse! {
        serialize_bool(bool) -> ();
        serialize_i8(i8) -> ();
        serialize_i16(i16) -> ();
        serialize_i32(i32) -> ();
        serialize_i64(i64) -> ();
        serialize_u8(u8) -> ();
        serialize_u16(u16) -> ();
        serialize_u32(u32) -> ();
        serialize_u64(u64) -> ();
        serialize_f32(f32) -> ();
        serialize_f64(f64) -> ();
        serialize_char(char) -> ();
        serialize_str(&str) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_none() -> ();
        serialize_some<T>(&T) -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_unit_variant(&'static str, u32, &'static str) -> ();
        serialize_newtype_struct<T>(&'static str, &T) -> ();
        serialize_newtype_variant<T>(&'static str, u32, &'static str, &T) -> ();
        serialize_tuple(usize) -> Never;
        serialize_tuple_struct(&'static str, usize) -> Never;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Never;
        serialize_struct(&'static str, usize) -> Never;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Never;
    }
}

#[test]
fn lengths_are_written_first() {
    let length = |collection: &dyn Fn(Lengths<'_>) -> Result<(), fmt::Error>| {
        let length = Cell::new(None);
        collection(Lengths(&length)).unwrap_err();
        length.get()
    };
    let map: RcuHashMap<u64, u64> = (0..9).map(|key| (key, key)).collect();
    let set: RcuHashSet<u64> = (0..7).collect();
    assert_eq!(length(&|lengths| map.serialize(lengths)), Some(9));
    assert_eq!(length(&|lengths| map.pin().serialize(lengths)), Some(9));
    assert_eq!(length(&|lengths| set.serialize(lengths)), Some(7));
}

/// Also while other threads change the map and its table grows.
#[test]
fn parallel_iteration_returns_each_entry_once() {
    let map: RcuHashMap<u64, u64> = (0..COUNT).into_par_iter().map(|key| (key, !key)).collect();
    assert_eq!(map.len() as u64, COUNT);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut key = COUNT;
            while !end.load(Ordering::Relaxed) {
                map.insert(key, !key, &read());
                key = if key < 8 * COUNT { key + 1 } else { COUNT };
            }
        });
        for _ in 0..20 {
            let guard = read();
            let mut seen: Vec<u64> = map
                .par_iter(&guard)
                .inspect(|(key, value)| assert_eq!(**key, !**value))
                .map(|(key, _)| *key)
                .filter(|key| *key < COUNT)
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..COUNT));
        }
        end.store(true, Ordering::Relaxed);
    });
    assert_eq!(RcuHashMap::<u64, u64>::new().par_iter(&read()).count(), 0);
}

#[test]
fn parallel_insertions_are_all_there() {
    let value = Arc::new(());
    let map: RcuHashMap<u64, Arc<()>> = RcuHashMap::new();
    (&map).par_extend((0..COUNT).into_par_iter().map(|key| (key, value.clone())));
    (&map).par_extend((0..COUNT).into_par_iter().map(|key| (key, value.clone())));
    let found: BTreeMap<u64, Arc<()>> = map.into_iter().collect();
    assert!(found.into_keys().eq(0..COUNT));
    sheaves::rcu::defer::barrier().unwrap();
    assert_eq!(Arc::strong_count(&value), 1);
}
