//! Names of functions for reports: from an address to the exported symbol that covers it.
//!
//! Takes no lock, and so does not call `dladdr`: the thread that holds the loader's lock may wait
//! for the thread that reports. Async-signal-safe except for `errno`.

use core::ffi::c_int;
use core::fmt;

use crate::report::Line;
use crate::reports::peek::Memory;
use crate::{function, tls};

/// `struct dl_find_object` of glibc.
#[repr(C)]
struct Found {
    flags: u64,
    map_start: usize,
    map_end: usize,
    link_map: usize,
    rest: [u64; 8],
}

struct Symbol {
    start: usize,
    /// The address of its name.
    name: usize,
}

/// Tags of the dynamic section.
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STT_FUNC: u64 = 2;
const STT_GNU_IFUNC: u64 = 10;
/// Bytes of a symbol: index of its name, type; value; size.
const SYMBOL_BYTES: usize = 24;
/// Most entries of a dynamic section, and of a table of symbols, that are looked at.
const ENTRIES_MAX: usize = 128;
const SYMBOLS_MAX: usize = 1 << 18;
const NAME_BYTES: usize = 64;

/// The object that is loaded at an address. `None` where there is none, or libc lacks a function
/// for that.
fn find(address: usize) -> Option<Found> {
    type Find = unsafe extern "C" fn(usize, *mut Found) -> c_int;
    // SAFETY: the function has this type in glibc's `dlfcn.h`.
    let find = unsafe { function::at::<Find>(tls::dl_find_object()) }?;
    let mut found = Found { flags: 0, map_start: 0, map_end: 0, link_map: 0, rest: [0; 8] };
    // SAFETY: any address is allowed, and the result is valid for the call to fill.
    (unsafe { find(address, &raw mut found) } == 0).then_some(found)
}

/// The address of the loader's description of the object at an address.
fn link_map_at(address: usize) -> Option<usize> {
    find(address).map(|found| found.link_map)
}

/// Where the object at an address is loaded; empty where there is none.
pub(crate) fn object_range(address: usize) -> core::ops::Range<usize> {
    find(address).map_or(0..0, |found| found.map_start..found.map_end)
}

/// True if the object at an address uses a symbol of another one.
pub(crate) fn imports(address: usize, name: &[u8]) -> bool {
    let mut memory = Memory::new();
    let Some(tables) = tables_at(&mut memory, address) else { return false };
    // Those of other objects are before those that the hash table has.
    let Some(end) = memory.half(tables.hash + 4) else { return false };
    (0..SYMBOLS_MAX.min(end as usize))
        .any(|index| section_if_named(&mut memory, &tables, index, name).is_some())
}

/// True if the object at an address, which stays loaded, has a stub of this name: its entry has an
/// address, and no section. `None` where it has no such name, or only the old form of hash table.
///
/// `dladdr1` tells that, too, but walks through all symbols: half a millisecond in a compiler.
#[cfg(target_env = "gnu")]
pub(crate) fn is_stub(address: usize, name: &[u8]) -> Option<bool> {
    // SAFETY: the tables of an object that stays.
    let mut memory = unsafe { Memory::that_stays() };
    section_of(&mut memory, address, name).map(|section| section == 0)
}

/// The section of the symbol of this name, by the hash table of the object at an address.
#[cfg(target_env = "gnu")]
fn section_of(memory: &mut Memory, address: usize, name: &[u8]) -> Option<u64> {
    let tables = tables_at(memory, address)?;
    let Buckets { first, start, count } = buckets_of(memory, tables.hash)?;
    let hash = name
        .iter()
        .fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
    // A bucket without symbols is 0.
    let row = memory.half(start + (hash as usize).checked_rem(count)? * 4)? as usize;
    for index in row..SYMBOLS_MAX {
        let found = memory.half(start + (count + index.checked_sub(first)?) * 4)?;
        let section = section_if_named(memory, &tables, index, name);
        if section.is_some() || found & 1 != 0 {
            return section;
        }
    }
    None
}

/// The section of a symbol, 0 for none, if it has this name.
fn section_if_named(
    memory: &mut Memory,
    tables: &Tables,
    index: usize,
    name: &[u8],
) -> Option<u64> {
    let head = memory.word(tables.symbols + index * SYMBOL_BYTES)?;
    let start = tables.names + head as u32 as usize;
    let mut bytes = name.iter().chain(&[0]).enumerate();
    let is_named = bytes.all(|(index, byte)| memory.byte(start + index) == Some(*byte));
    is_named.then_some(head >> 48)
}

pub(crate) fn is_in_object(address: usize) -> bool {
    link_map_at(address).is_some()
}

/// Files of libc, of the loader and of the C++ runtime, as far as their names are fixed.
const RUNTIME: [&str; 4] = ["libc.so", "libc-2", "ld-linux", "libstdc++.so"];

/// True if an address is in libc, in the loader, or in the C++ runtime.
pub fn is_in_runtime(address: usize) -> bool {
    let mut memory = Memory::new();
    let path = link_map_at(address).and_then(|link_map| memory.word(link_map + 8));
    let mut name = Line::new();
    let _ = path.map(|path| write_last_part(&mut memory, path as usize, &mut name));
    RUNTIME.iter().any(|start| name.as_bytes().starts_with(start.as_bytes()))
}

/// Return addresses for a report: the innermost function first, then its callers.
#[derive(Debug)]
pub struct Addresses<'a>(pub &'a [usize]);

impl fmt::Display for Addresses<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("an unknown function");
        }
        // The call is before the address to which it returns.
        write_all(self.0.iter().map(|address| address.wrapping_sub(1)), f)
    }
}

/// Writes the names of functions, of which each calls the one before.
pub(crate) fn write_all(
    addresses: impl Iterator<Item = usize>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut memory = Memory::new();
    for (index, address) in addresses.enumerate() {
        f.write_str(["", ", called by ", ", "][index.min(2)])?;
        write(&mut memory, address, f)?;
    }
    Ok(())
}

/// The addresses of an object's tables, and what it adds to the addresses in them.
struct Tables {
    bias: usize,
    symbols: usize,
    names: usize,
    hash: usize,
}

fn tables_at(memory: &mut Memory, address: usize) -> Option<Tables> {
    let Found { map_start, map_end, link_map, .. } = find(address)?;
    let bias = memory.word(link_map)? as usize;
    let dynamic = memory.word(link_map + 16)? as usize;
    let (mut symbols, mut names, mut hash) = (0, 0, 0);
    for entry in (0..ENTRIES_MAX).map(|index| dynamic + index * 16) {
        let (tag, value) = (memory.word(entry)?, memory.word(entry + 8)? as usize);
        // Not an address yet where the section is read-only. The object may be mapped below where
        // it was linked.
        let is_in = |value: &usize| (map_start..map_end).contains(value);
        let value = [value, bias.wrapping_add(value)].into_iter().find(is_in).unwrap_or(0);
        match tag {
            DT_NULL => break,
            DT_SYMTAB => symbols = value,
            DT_STRTAB => names = value,
            DT_GNU_HASH => hash = value,
            _ => {}
        }
    }
    let is_whole = symbols != 0 && names != 0 && hash != 0;
    is_whole.then_some(Tables { bias, symbols, names, hash })
}

/// The exported function that covers an address.
fn function_at(memory: &mut Memory, address: usize) -> Option<Symbol> {
    let Tables { bias, symbols, names, hash } = tables_at(memory, address)?;
    for index in 0..symbol_count(memory, hash)?.min(SYMBOLS_MAX) {
        let symbol = symbols + index * SYMBOL_BYTES;
        let head = memory.word(symbol)?;
        let start = bias.wrapping_add(memory.word(symbol + 8)? as usize);
        let bytes = memory.word(symbol + 16)? as usize;
        let is_function = matches!(head >> 32 & 0xf, STT_FUNC | STT_GNU_IFUNC);
        if is_function && address.wrapping_sub(start) < bytes {
            return Some(Symbol { start, name: names + head as u32 as usize });
        }
    }
    None
}

/// The buckets of a hash table. Each has the first of a row of symbols, whose last one has an odd
/// hash: the hashes, from that of the first symbol on, are behind the buckets.
struct Buckets {
    first: usize,
    start: usize,
    count: usize,
}

fn buckets_of(memory: &mut Memory, hash: usize) -> Option<Buckets> {
    let [count, first, filter_words] = [0, 4, 8].map(|at| memory.half(hash + at));
    let start = hash + 16 + filter_words? as usize * 8;
    Some(Buckets { first: first? as usize, start, count: count? as usize })
}

/// The number of symbols, which only the hash table tells.
fn symbol_count(memory: &mut Memory, hash: usize) -> Option<usize> {
    let Buckets { first, start, count } = buckets_of(memory, hash)?;
    let mut last = 0;
    for bucket in 0..count.min(SYMBOLS_MAX) {
        last = last.max(memory.half(start + bucket * 4)? as usize);
    }
    let hashes = start + count * 4;
    while last >= first && memory.half(hashes + (last - first) * 4)? & 1 == 0 {
        last += 1;
    }
    Some(last + 1)
}

pub(crate) fn is_function(memory: &mut Memory, address: usize) -> bool {
    function_at(memory, address).is_some_and(|symbol| symbol.start == address)
}

/// Writes the name of the function at an address; if it is not exported, the file and the address
/// in it.
pub(crate) fn write(
    memory: &mut Memory,
    address: usize,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if let Some(symbol) = function_at(memory, address) {
        return write_last_part(memory, symbol.name, f);
    }
    let object = link_map_at(address).and_then(|link_map| {
        Some((memory.word(link_map)? as usize, memory.word(link_map + 8)? as usize))
    });
    let Some((bias, path)) = object else { return write!(f, "{address:#x}") };
    // The path of the program itself is empty.
    match memory.byte(path) {
        None | Some(0) => f.write_str("program")?,
        Some(_) => write_last_part(memory, path, f)?,
    }
    write!(f, "+{:#x}", address.wrapping_sub(bias))
}

/// Writes a C string, or what is after its last slash.
fn write_last_part(memory: &mut Memory, start: usize, f: &mut dyn fmt::Write) -> fmt::Result {
    let mut text = [0; NAME_BYTES];
    let mut used = 0;
    let mut address = start;
    while let Some(byte @ 1..) = memory.byte(address) {
        address += 1;
        if byte == b'/' {
            used = 0;
        } else if used < NAME_BYTES {
            text[used] = byte;
            used += 1;
        }
    }
    for byte in &text[..used] {
        f.write_char(if byte.is_ascii_graphic() { char::from(*byte) } else { '?' })?;
    }
    Ok(())
}

#[cfg(all(test, target_arch = "x86_64"))]
#[path = "../../tests/unit/symbol.rs"]
mod tests;
