//! Functions and lines of addresses, from the object files that were mapped.
//!
//! A file may be absent, stripped, or another one by now. Then the name of a frame is the file's
//! with an offset, and the build id tells where the symbols can be found.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use addr2line::Loader;
use object::read::{Object as _, ObjectSegment as _};

use super::dump::Mapping;

/// A function on a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// What is known of a mapped file.
#[derive(Default)]
struct File {
    loader: Option<Loader>,
    /// Offset in the file, bytes, and address as linked, of each segment.
    segments: Vec<(u64, u64, u64)>,
    build_id: String,
}

/// Looks up addresses.
pub(crate) struct Symbols {
    pub(crate) mappings: Vec<Mapping>,
    files: HashMap<String, File>,
}

impl Symbols {
    pub(crate) fn new(mut mappings: Vec<Mapping>) -> Symbols {
        mappings.sort_by_key(|mapping| mapping.start);
        Symbols { mappings, files: HashMap::new() }
    }

    /// Index of the mapping that has an address.
    pub(crate) fn mapping_of(&self, address: u64) -> Option<usize> {
        let after = self.mappings.partition_point(|mapping| mapping.start <= address);
        let index = after.checked_sub(1)?;
        (address < self.mappings[index].end).then_some(index)
    }

    /// The build id of the file of a mapping where an address was looked up, in hexadecimal digits;
    /// empty if it has none.
    pub(crate) fn build_id(&self, index: usize) -> &str {
        self.files.get(&self.mappings[index].path).map_or("", |file| &file.build_id)
    }

    fn file(&mut self, path: &str) -> &File {
        self.files.entry(path.to_owned()).or_insert_with(|| File::open(path).unwrap_or_default())
    }

    /// The functions at a return address: the innermost inlined one first. Never empty.
    pub(crate) fn frames(&mut self, return_address: u64) -> Vec<Frame> {
        // The call is before the address to which it returns.
        let address = return_address.saturating_sub(1);
        let unknown = |function| vec![Frame { function, file: String::new(), line: 0 }];
        let Some(index) = self.mapping_of(address) else {
            return unknown(format!("{return_address:#x}"));
        };
        let Mapping { start, offset, path, .. } = self.mappings[index].clone();
        let in_file = address - start + offset;
        let file = self.file(&path);
        let segment = file
            .segments
            .iter()
            .find(|(offset, bytes, _)| (*offset..offset + bytes).contains(&in_file));
        let linked = segment.map(|(offset, _, linked)| in_file - offset + linked);
        let frames = match (&file.loader, linked) {
            (Some(loader), Some(linked)) => frames_at(loader, linked),
            _ => Vec::new(),
        };
        if !frames.is_empty() {
            return frames;
        }
        let name =
            Path::new(&path).file_name().map_or(path.clone().into(), |name| name.to_string_lossy());
        unknown(format!("{name}+{:#x}", linked.unwrap_or(in_file) + 1))
    }
}

impl File {
    fn open(path: &str) -> Option<File> {
        let bytes = fs::read(path).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let segments = object.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        let build_id = object.build_id().ok().flatten().unwrap_or_default();
        Some(File {
            loader: Loader::new(path).ok(),
            segments: segments.collect(),
            build_id: build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

fn frames_at(loader: &Loader, address: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { continue };
            let function =
                function.demangle().map_or_else(|_| "?".into(), |name| name.into_owned());
            let location = frame.location;
            let file = location.as_ref().and_then(|location| location.file).unwrap_or_default();
            let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
            found.push(Frame { function, file: file.to_owned(), line });
        }
    }
    if found.is_empty()
        && let Some(symbol) = loader.find_symbol(address)
    {
        let function = addr2line::demangle_auto(symbol.into(), None).into_owned();
        found.push(Frame { function, file: String::new(), line: 0 });
    }
    found
}
