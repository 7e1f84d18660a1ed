//! Functions and lines of addresses, from the object files that were mapped.
//!
//! A file may be absent, stripped, or another one by now. Then the name of a frame is the file's
//! with an offset, and the build id tells where the symbols can be found. Of a file of another user
//! only the table of symbols is read: what DWARF makes of a few bytes has no limit.

use core::fmt::{self, Write as _};
use std::collections::HashMap;
use std::path::Path;

use addr2line::Loader;
use object::read::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

use super::dump::Mapping;
use super::files::{self, Found, Place};
use crate::output;

/// Characters of a function's name.
const NAME_CHARS_MAX: usize = 1024;
/// Functions of a file of another user.
const SYMBOLS_MAX: usize = 100_000;
/// Bytes of their names.
const SYMBOL_BYTES_MAX: usize = 16 << 20;
/// Inlined functions at an address.
const FRAMES_MAX: usize = 256;

/// A function on a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
}

/// What is known of a mapped file.
#[derive(Default)]
struct Object {
    loader: Option<Loader>,
    /// Address, end and name of functions, if there is no loader, by address.
    symbols: Vec<(u64, u64, String)>,
    /// Offset in the file, bytes, and address as linked, of each segment.
    segments: Vec<(u64, u64, u64)>,
    build_id: String,
}

/// Looks up addresses.
pub(crate) struct Symbols {
    pub(crate) mappings: Vec<Mapping>,
    objects: HashMap<String, Object>,
    place: Place,
}

impl Symbols {
    /// Of what ran somewhere: the files are those that have the names here and now.
    pub(crate) fn new(mappings: Vec<Mapping>) -> Symbols {
        Self::at(mappings, Place::Here)
    }

    /// Of a process that runs.
    pub(crate) fn of_process(pid: u32, mappings: Vec<Mapping>) -> Symbols {
        Self::at(mappings, Place::Process(pid))
    }

    fn at(mut mappings: Vec<Mapping>, place: Place) -> Symbols {
        mappings.sort_by_key(|mapping| mapping.start);
        Symbols { mappings, objects: HashMap::new(), place }
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
        self.objects.get(&self.mappings[index].path).map_or("", |object| &object.build_id)
    }

    /// The functions at a return address: the innermost inlined one first. Never empty.
    pub(crate) fn frames(&mut self, return_address: u64) -> Vec<Frame> {
        // The call is before the address to which it returns.
        let address = return_address.saturating_sub(1);
        let unknown = |function| vec![Frame { function, file: String::new(), line: 0 }];
        let Some(index) = self.mapping_of(address) else {
            return unknown(format!("{return_address:#x}"));
        };
        let mapping = &self.mappings[index];
        let in_file = (address - mapping.start).wrapping_add(mapping.offset);
        let read = || Object::read(mapping, self.place).unwrap_or_default();
        let object = self.objects.entry(mapping.path.clone()).or_insert_with(read);
        let is_in = |(offset, bytes, _): &&(u64, u64, u64)| {
            in_file.checked_sub(*offset).is_some_and(|at| at < *bytes)
        };
        let segment = object.segments.iter().find(is_in);
        let linked = segment.map(|(offset, _, linked)| (in_file - offset).wrapping_add(*linked));
        let frames = linked.map(|linked| object.frames_at(linked)).unwrap_or_default();
        if !frames.is_empty() {
            return frames;
        }
        let file = Path::new(&mapping.path).file_name().unwrap_or(mapping.path.as_ref());
        let name = output::name(file.as_encoded_bytes());
        unknown(format!("{name}+{:#x}", linked.unwrap_or(in_file).wrapping_add(1)))
    }
}

impl Object {
    fn read(mapping: &Mapping, place: Place) -> Option<Object> {
        match files::find(mapping, place)? {
            Found::Trusted(file, path) => {
                // The path leads to the file as long as this has it.
                let file = object::read::ReadCache::new(file);
                let object = Self::parse(&file)?;
                Some(Object { loader: Loader::new(path).ok(), ..object })
            }
            Found::Foreign(bytes) => {
                let symbols = symbols_of(&object::File::parse(&*bytes).ok()?);
                Some(Object { symbols, ..Self::parse(&*bytes)? })
            }
        }
    }

    /// Segments and build id.
    fn parse<'data>(bytes: impl object::read::ReadRef<'data>) -> Option<Object> {
        let object = object::File::parse(bytes).ok()?;
        let segments = object.segments().map(|segment| {
            let (offset, bytes) = segment.file_range();
            (offset, bytes, segment.address())
        });
        let segments = segments.collect();
        let build_id = object.build_id().ok().flatten().unwrap_or_default();
        let build_id = build_id.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
        Some(Object { segments, build_id, ..Object::default() })
    }

    fn frames_at(&self, address: u64) -> Vec<Frame> {
        if let Some(loader) = &self.loader {
            return frames_of(loader, address);
        }
        let after = self.symbols.partition_point(|(start, ..)| *start <= address);
        let symbol = after.checked_sub(1).map(|index| &self.symbols[index]);
        let symbol = symbol.filter(|(_, end, _)| address < *end);
        let frame = |(.., name): &(u64, u64, String)| frame(&demangled(name), "", 0);
        symbol.into_iter().map(frame).collect()
    }
}

/// The functions of a file, by address.
fn symbols_of<'data>(file: &object::File<'data>) -> Vec<(u64, u64, String)> {
    let mut symbols = Vec::new();
    let mut bytes = 0;
    let all = file.symbols().chain(file.dynamic_symbols());
    for symbol in all.filter(|it| it.kind() == SymbolKind::Text && it.size() != 0) {
        let Ok(name) = symbol.name() else { continue };
        bytes += name.len();
        if symbols.len() == SYMBOLS_MAX || bytes > SYMBOL_BYTES_MAX {
            break;
        }
        let end = symbol.address().saturating_add(symbol.size());
        symbols.push((symbol.address(), end, name.to_owned()));
    }
    symbols.sort_unstable();
    symbols
}

fn frame(function: &str, file: &str, line: u32) -> Frame {
    let [function, file] = [function, file].map(|name| output::line(name, NAME_CHARS_MAX));
    Frame { function, file, line }
}

fn frames_of(loader: &Loader, address: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(inlined)) = frames.next()
            && found.len() < FRAMES_MAX
        {
            let Some(function) = inlined.function else { continue };
            let function =
                function.demangle().map_or_else(|_| "?".into(), |name| name.into_owned());
            let location = inlined.location;
            let file = location.as_ref().and_then(|location| location.file).unwrap_or_default();
            let line = location.as_ref().and_then(|location| location.line).unwrap_or(0);
            found.push(frame(&function, file, line));
        }
    }
    if found.is_empty()
        && let Some(symbol) = loader.find_symbol(address)
    {
        found.push(frame(&addr2line::demangle_auto(symbol.into(), None), "", 0));
    }
    found
}

/// The name of a function in the words of its language, or as it is where that would be too long.
fn demangled(name: &str) -> String {
    let mut text = Limited(String::new());
    let is_written = match rustc_demangle::try_demangle(name) {
        Ok(symbol) => write!(text, "{symbol:#}").is_ok(),
        Err(_) => cpp_demangle::Symbol::new(name).is_ok_and(|symbol| {
            let options = cpp_demangle::DemangleOptions::default();
            symbol.structured_demangle(&mut text, &options).is_ok()
        }),
    };
    if is_written { text.0 } else { name.to_owned() }
}

/// A text of limited length: a name of some bytes may stand for one of gigabytes.
struct Limited(String);

impl fmt::Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_CHARS_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
