//! The format of pprof: `profile.proto` of <https://github.com/google/pprof>, compressed.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use super::named::Profile;
use super::symbols::Frame;
use crate::output::plain;

/// The messages of `profile.proto` that are used, with their numbers there.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(super) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(super) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(super) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(super) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(super) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(super) string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub(super) time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub(super) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(super) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(super) period: i64,
        #[prost(int64, tag = "14")]
        pub(super) default_sample_type: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(super) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(super) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(super) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(super) value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub(super) label: Vec<Label>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Label {
        #[prost(int64, tag = "1")]
        pub(super) key: i64,
        #[prost(int64, tag = "2")]
        pub(super) str: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub(super) memory_limit: u64,
        #[prost(uint64, tag = "4")]
        pub(super) file_offset: u64,
        #[prost(int64, tag = "5")]
        pub(super) filename: i64,
        #[prost(int64, tag = "6")]
        pub(super) build_id: i64,
        #[prost(bool, tag = "7")]
        pub(super) has_functions: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Location {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(uint64, tag = "2")]
        pub(super) mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub(super) address: u64,
        #[prost(message, repeated, tag = "4")]
        pub(super) line: Vec<Line>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Line {
        #[prost(uint64, tag = "1")]
        pub(super) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(super) line: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Function {
        #[prost(uint64, tag = "1")]
        pub(super) id: u64,
        #[prost(int64, tag = "2")]
        pub(super) name: i64,
        #[prost(int64, tag = "4")]
        pub(super) filename: i64,
    }
}

/// A profile under construction.
struct Builder {
    proto: proto::Profile,
    strings: HashMap<String, i64>,
    functions: HashMap<(String, String), u64>,
    locations: HashMap<u64, u64>,
    /// Numbers in the file of the mappings that are used.
    mappings: HashMap<usize, u64>,
}

/// The file's contents.
pub(crate) fn encode(profile: &Profile) -> Vec<u8> {
    let mut builder = Builder {
        proto: proto::Profile::default(),
        strings: HashMap::new(),
        functions: HashMap::new(),
        locations: HashMap::new(),
        mappings: HashMap::new(),
    };
    let bytes = builder.build(profile).encode_to_vec();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail.
    let _ = encoder.write_all(&bytes);
    encoder.finish().unwrap_or_default()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Builder {
    fn build(&mut self, profile: &Profile) -> &proto::Profile {
        self.string("");
        for (name, unit) in [
            ("alloc_objects", "count"),
            ("alloc_space", "bytes"),
            ("inuse_objects", "count"),
            ("inuse_space", "bytes"),
        ] {
            let value_type = self.value_type(name, unit);
            self.proto.sample_type.push(value_type);
        }
        let dump = &profile.dump;
        self.proto.period_type = Some(self.value_type("space", "bytes"));
        self.proto.period = signed(dump.rate_bytes);
        self.proto.time_nanos = signed(dump.until_ms.saturating_mul(1_000_000));
        let took_ms = dump.until_ms.saturating_sub(dump.since_ms);
        self.proto.duration_nanos = signed(took_ms.saturating_mul(1_000_000));
        self.proto.default_sample_type = self.string("inuse_space");
        for site in &dump.sites {
            let addresses = site.addresses.iter();
            let location_id = addresses.map(|address| self.location(profile, *address)).collect();
            // What is deferred was counted where it was allocated.
            let (all_objects, all_bytes) =
                if site.is_deferred { (0, 0) } else { (site.all_objects, site.all_bytes) };
            let value = [all_objects, all_bytes, site.objects, site.bytes].map(signed).to_vec();
            let state = if site.is_deferred { "deferred" } else { "live" };
            let labels = [("kind", site.kind.as_str()), ("cache", &site.cache), ("state", state)];
            let label = labels
                .map(|(key, text)| proto::Label { key: self.string(key), str: self.string(text) });
            self.proto.sample.push(proto::Sample { location_id, value, label: label.to_vec() });
        }
        self.fill_mappings(profile);
        &self.proto
    }

    fn string(&mut self, text: &str) -> i64 {
        let table = &mut self.proto.string_table;
        *self.strings.entry(text.to_owned()).or_insert_with(|| {
            table.push(text.to_owned());
            table.len() as i64 - 1
        })
    }

    fn value_type(&mut self, name: &str, unit: &str) -> proto::ValueType {
        proto::ValueType { r#type: self.string(name), unit: self.string(unit) }
    }

    fn location(&mut self, profile: &Profile, address: u64) -> u64 {
        if let Some(id) = self.locations.get(&address) {
            return *id;
        }
        let id = self.locations.len() as u64 + 1;
        self.locations.insert(address, id);
        let next = self.mappings.len() as u64 + 1;
        let mapping = profile.symbols.mapping_of(address.saturating_sub(1));
        let mapping_id = mapping.map_or(0, |index| *self.mappings.entry(index).or_insert(next));
        let lines = profile.frames_at(address).iter().map(|frame| proto::Line {
            function_id: self.function(frame),
            line: i64::from(frame.line),
        });
        let line = lines.collect();
        self.proto.location.push(proto::Location { id, mapping_id, address, line });
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let key = (frame.function.clone(), frame.file.clone());
        if let Some(id) = self.functions.get(&key) {
            return *id;
        }
        let id = self.functions.len() as u64 + 1;
        let (name, filename) = (self.string(&frame.function), self.string(&frame.file));
        self.proto.function.push(proto::Function { id, name, filename });
        self.functions.insert(key, id);
        id
    }

    fn fill_mappings(&mut self, profile: &Profile) {
        let mut used: Vec<_> = self.mappings.iter().map(|(index, id)| (*id, *index)).collect();
        used.sort_unstable();
        for (id, index) in used {
            let mapping = &profile.symbols.mappings[index];
            let build_id = profile.symbols.build_id(index);
            let mapping = proto::Mapping {
                id,
                memory_start: mapping.start,
                memory_limit: mapping.end,
                file_offset: mapping.offset,
                filename: self.string(&plain(&mapping.path)),
                build_id: self.string(build_id),
                has_functions: true,
            };
            self.proto.mapping.push(mapping);
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/prof_pprof.rs"]
mod tests;
