//! What an ELF file tells about preloading.
//!
//! Only the headers, the dynamic section and symbol tables are read, never the whole file: programs
//! of hundreds of megabytes start as fast as small ones.

use alloc::collections::BTreeSet;
use core::fmt;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{
    FileHeader, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _,
};
use object::read::{Error, ReadCache, ReadRef, StringTable};

/// The magic number of an ELF file.
pub(crate) const MAGIC: &[u8] = b"\x7fELF";

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
    /// The libraries that it is linked to.
    pub(crate) needed: Vec<OsString>,
    /// Folders of libraries, of the older kind.
    pub(crate) rpath: Option<OsString>,
    /// Folders of libraries.
    pub(crate) runpath: Option<OsString>,
    /// What it defines for others.
    pub(crate) exports: Allocators,
    /// What it defines, as far as it is not stripped. Read of programs only.
    pub(crate) contains: Allocators,
}

/// What a table of symbols tells about allocators.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Allocators {
    /// Defines `malloc`.
    pub(crate) malloc: bool,
    /// Defines `free`.
    pub(crate) free: bool,
    /// The sanitizer whose runtime it has.
    pub(crate) sanitizer: Option<&'static str>,
    /// The allocator that it has.
    pub(crate) allocator: Option<&'static str>,
}

impl Allocators {
    fn note(&mut self, name: &[u8], is_defined: bool) {
        match name {
            // Every sanitizer's runtime asks for it, also one whose own symbols are stripped.
            b"__sanitizer_symbolize_code" => {
                self.sanitizer = self.sanitizer.or(Some("a sanitizer"));
            }
            _ if !is_defined => {}
            b"malloc" => self.malloc = true,
            b"free" => self.free = true,
            b"__asan_init" => self.sanitizer = Some("AddressSanitizer"),
            b"__hwasan_init" => self.sanitizer = Some("HWAddressSanitizer"),
            b"__lsan_init" => self.sanitizer = Some("LeakSanitizer"),
            b"__msan_init" => self.sanitizer = Some("MemorySanitizer"),
            b"__tsan_init" => self.sanitizer = Some("ThreadSanitizer"),
            b"mallocx" | b"je_malloc" | b"_rjem_malloc" => self.allocator = Some("jemalloc"),
            b"tc_malloc" | b"MallocExtension_ReleaseFreeMemory" => {
                self.allocator = Some("tcmalloc");
            }
            b"mi_malloc" => self.allocator = Some("mimalloc"),
            _ => {}
        }
    }
}

/// The names in a dynamic symbol table.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Of what the file defines.
    pub(crate) defined: BTreeSet<Vec<u8>>,
    /// Of what it takes from others.
    pub(crate) undefined: BTreeSet<Vec<u8>>,
}

impl Names {
    /// Reads the 64-bit ELF file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let data = &ReadCache::new(file);
        let mut names = Self::default();
        let read = || {
            let header = FileHeader64::<Endianness>::parse(data)?;
            let sections = header.sections(header.endian()?, data)?;
            for_each_symbol(&sections, header.endian()?, data, elf::SHT_DYNSYM, |name, defined| {
                let set = if defined { &mut names.defined } else { &mut names.undefined };
                set.insert(name.to_owned());
            })
        };
        let done: Result<(), Error> = { read }();
        done.map_err(|error| error.to_string())?;
        Ok(names)
    }
}

impl Facts {
    /// Reads the 64-bit ELF file at `path`, a library.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        Self::read_with(path, false)
    }

    /// Reads the 64-bit ELF file at `path`, a program: what it keeps to itself, too.
    pub(crate) fn read_program(path: &Path) -> Result<Self, String> {
        Self::read_with(path, true)
    }

    fn read_with(path: &Path, whole: bool) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        Self::parse(&ReadCache::new(file), whole).map_err(|error| error.to_string())
    }

    fn parse<'data, R: ReadRef<'data>>(data: R, whole: bool) -> Result<Self, Error> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let mut facts = Self::default();
        for segment in header.program_headers(endian, data)? {
            facts.dynamic |= segment.p_type(endian) == elf::PT_DYNAMIC;
            if let Some(interpreter) = segment.interpreter(endian, data)? {
                facts.interpreter = Some(String::from_utf8_lossy(interpreter).into_owned());
            }
        }
        let sections = header.sections(endian, data)?;
        let table = sections.dynamic_table(endian, data)?;
        for entry in &table {
            let string = || table.string(entry).map(|text| OsStr::from_bytes(text).to_owned());
            match entry.tag {
                elf::DT_NEEDED => facts.needed.push(string()?),
                elf::DT_RPATH => facts.rpath = Some(string()?),
                elf::DT_RUNPATH => facts.runpath = Some(string()?),
                _ => {}
            }
        }
        let exports = &mut facts.exports;
        for_each_symbol(&sections, endian, data, elf::SHT_DYNSYM, |name, is_defined| {
            exports.note(name, is_defined);
        })?;
        if whole {
            let contains = &mut facts.contains;
            for_each_symbol(&sections, endian, data, elf::SHT_SYMTAB, |name, is_defined| {
                contains.note(name, is_defined);
            })?;
        }
        Ok(facts)
    }
}

/// Visits the names of a symbol table, and whether they are defined.
fn for_each_symbol<'data, R: ReadRef<'data>>(
    sections: &SectionTable<'data, FileHeader64<Endianness>, R>,
    endian: Endianness,
    data: R,
    kind: elf::SectionType,
    mut visit: impl FnMut(&[u8], bool),
) -> Result<(), Error> {
    let symbols = sections.symbols(endian, data, kind)?;
    if symbols.is_empty() {
        return Ok(());
    }
    // Names come from one read of the table: the cache would read the file once per name, of up
    // to a hundred thousand.
    let names = sections.section(symbols.string_section())?.data(endian, data)?;
    let names = StringTable::new(names, 0, names.len() as u64);
    for symbol in symbols.iter() {
        visit(symbol.name(endian, names)?, !symbol.is_undefined(endian));
    }
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/elf.rs"]
mod tests;
