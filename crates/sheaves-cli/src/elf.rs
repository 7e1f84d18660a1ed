//! What an ELF file tells about preloading.
//!
//! Only the headers and the dynamic symbol table are read, never the whole file: programs of
//! hundreds of megabytes start as fast as small ones.

use core::fmt;
use std::fs::File;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader as _, SectionHeader as _, Sym as _};
use object::read::{Error, ReadCache, ReadRef, StringTable};

/// The magic number of an ELF file.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";

/// Functions that only a program with an allocator of its own defines, and the allocator's name.
const OWN_ALLOCATORS: [(&[u8], &str); 6] = [
    (b"mallocx", "jemalloc"),
    (b"je_malloc", "jemalloc"),
    (b"_rjem_malloc", "jemalloc"),
    (b"tc_malloc", "tcmalloc"),
    (b"MallocExtension_ReleaseFreeMemory", "tcmalloc"),
    (b"mi_malloc", "mimalloc"),
];

/// The kind of machine that code in a file is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Target {
    /// `ELFCLASS32` or `ELFCLASS64`.
    class: u8,
    /// `EM_X86_64` and so on, in the byte order of the file.
    machine: u16,
}

impl Target {
    /// Reads the first bytes of a file; `None` where they are not those of an ELF file.
    pub(crate) fn of_start(start: &[u8]) -> Option<Self> {
        if !start.starts_with(MAGIC) {
            return None;
        }
        let (class, order) = (*start.get(4)?, *start.get(5)?);
        let machine = [*start.get(18)?, *start.get(19)?];
        let machine =
            if order == 2 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
        Some(Self { class, machine })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = if self.class == 1 { "32-bit" } else { "64-bit" };
        let machine = match self.machine {
            3 => "x86",
            40 => "ARM",
            62 => "x86-64",
            183 => "aarch64",
            243 => "RISC-V",
            other => return write!(out, "{width} machine {other}"),
        };
        write!(out, "{width} {machine}")
    }
}

/// The facts that decide whether a file can be preloaded, or have an object preloaded into it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Facts {
    /// The dynamic linker that the program requests.
    pub(crate) interpreter: Option<String>,
    /// Whether the file has a dynamic segment.
    pub(crate) dynamic: bool,
    /// The allocator that is linked into the program and exported by it.
    pub(crate) own_allocator: Option<&'static str>,
    /// Whether the file defines `malloc`.
    pub(crate) defines_malloc: bool,
}

impl Facts {
    /// Reads the 64-bit ELF file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        Self::parse(&ReadCache::new(file)).map_err(|error| error.to_string())
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Self, Error> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let mut facts = Self::default();
        for segment in header.program_headers(endian, data)? {
            facts.dynamic |= segment.p_type(endian) == elf::PT_DYNAMIC;
            if let Some(interpreter) = segment.interpreter(endian, data)? {
                facts.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
            }
        }
        facts.find_allocators(header, endian, data)?;
        Ok(facts)
    }

    /// Looks for allocators among the defined dynamic symbols.
    fn find_allocators<'data, R: ReadRef<'data>>(
        &mut self,
        header: &'data FileHeader64<Endianness>,
        endian: Endianness,
        data: R,
    ) -> Result<(), Error> {
        let sections = header.sections(endian, data)?;
        let symbols = sections.symbols(endian, data, elf::SHT_DYNSYM)?;
        if symbols.is_empty() {
            return Ok(());
        }
        // Names come from one read of the table: the cache would read the file once per name, of up
        // to a hundred thousand.
        let names = sections.section(symbols.string_section())?.data(endian, data)?;
        let names = StringTable::new(names, 0, names.len() as u64);
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            let name = symbol.name(endian, names)?;
            self.defines_malloc |= name == b"malloc";
            if let Some((_, owner)) = OWN_ALLOCATORS.iter().find(|(known, _)| *known == name) {
                self.own_allocator = Some(owner);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_program_without_an_allocator() {
        let path = std::env::current_exe().expect("a path");
        let facts = Facts::read(&path).expect("an ELF file");
        assert!(facts.dynamic && facts.interpreter.is_some(), "{facts:?}");
        assert_eq!((facts.own_allocator, facts.defines_malloc), (None, false));
    }

    #[test]
    fn kind_of_machine_is_read_in_either_byte_order() {
        let mut start = [0_u8; 20];
        start[..6].copy_from_slice(b"\x7fELF\x02\x01");
        start[18] = 62;
        assert_eq!(Target::of_start(&start).expect("ELF").to_string(), "64-bit x86-64");
        start[4..6].copy_from_slice(&[1, 2]);
        start[18..].copy_from_slice(&[0, 40]);
        assert_eq!(Target::of_start(&start).expect("ELF").to_string(), "32-bit ARM");
        assert_eq!(Target::of_start(b"#!/bin/sh"), None);
        assert_eq!(Target::of_start(MAGIC), None);
    }
}
