//! A core dump: what the kernel notes in it, and the memory of the process.
//!
//! The file may be damaged, or made to look like one. So what it says of sizes and places is
//! checked against the file itself, and holes in it are not read.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use sheaves_slab::internal::trap::layout::MAGIC;

use crate::prof::dump::Mapping;
use crate::refusal::Refusal;

/// Notes of the kernel, `linux/elf.h`.
const NT_PRSTATUS: u32 = 1;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_FILE: u32 = 0x4649_4c45;
/// Where `elf_prstatus` has the thread and the registers.
const THREAD_AT: usize = 32;
const REGISTERS_AT: usize = 112;
/// Indexes of program counter, stack pointer and frame pointer in the registers.
const REGISTERS_X86_64: [usize; 3] = [16, 19, 4];
const REGISTERS_AARCH64: [usize; 3] = [32, 31, 29];
/// The most functions of a stack.
const FRAMES_MAX: usize = 64;
const PAGE_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 4 << 20;
/// More tables of guarded blocks than any process has.
const TABLES_MAX: usize = 8;
/// The most parts of memory: a process has 65,530 mappings, unless more are allowed.
const SEGMENTS_MAX: u32 = 1 << 18;
/// The most bytes of notes: a thread has some kilobytes, a mapped file less than one.
const NOTES_BYTES_MAX: u64 = 64 << 20;
/// The most mapped files.
const MAPPINGS_MAX: usize = 1 << 17;

/// A part of the process's memory.
struct Segment {
    address: u64,
    offset: u64,
    bytes: u64,
}

/// A core dump.
pub(crate) struct Core {
    file: File,
    /// Its length.
    bytes: u64,
    segments: Vec<Segment>,
    /// The signal that ended the process.
    pub(crate) signal: i32,
    /// The address that was accessed, if the signal is about one.
    pub(crate) address: Option<usize>,
    /// The thread that got the signal.
    pub(crate) thread: i32,
    registers: [u64; 3],
    /// The mapped files.
    pub(crate) mappings: Vec<Mapping>,
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..at + 8)?.as_array()?))
}

fn half(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..at + 4)?.as_array()?))
}

impl Core {
    /// Opens a core dump of a 64-bit process in this machine's byte order.
    pub(crate) fn open(path: &Path) -> Result<Core, Refusal> {
        let unreadable =
            |error| Refusal::no_input(format!("cannot read {}: {error}", path.display()));
        let foreign =
            || Refusal::bad_data(format!("{} is no core dump of a 64-bit process", path.display()));
        // A pipe is not opened: that would wait for what is at its other end.
        let status = path.metadata().map_err(unreadable)?;
        if !status.is_file() {
            return Err(foreign());
        }
        let file = File::open(path).map_err(unreadable)?;
        let cache = ReadCache::new(file.try_clone().map_err(unreadable)?);
        let mut core = Core {
            file,
            bytes: status.len(),
            segments: Vec::new(),
            signal: 0,
            address: None,
            thread: 0,
            registers: [0; 3],
            mappings: Vec::new(),
        };
        core.parse(&cache).ok_or_else(foreign)?;
        Ok(core)
    }

    fn parse(&mut self, cache: &ReadCache<File>) -> Option<()> {
        let header = FileHeader64::<Endianness>::parse(cache).ok()?;
        let endian = header.endian().ok()?;
        if header.e_type(endian) != elf::ET_CORE || endian != Endianness::Little {
            return None;
        }
        let indexes = match header.e_machine(endian) {
            elf::EM_X86_64 => REGISTERS_X86_64,
            elf::EM_AARCH64 => REGISTERS_AARCH64,
            _ => return None,
        };
        if header.phnum(endian, cache).ok()? > SEGMENTS_MAX {
            return None;
        }
        // Headers may all name the same notes.
        let mut left = NOTES_BYTES_MAX;
        for segment in header.program_headers(endian, cache).ok()? {
            let (offset, bytes) = (segment.p_offset(endian), segment.p_filesz(endian));
            if segment.p_type(endian) == elf::PT_LOAD {
                let address = segment.p_vaddr(endian);
                // A dump may be cut short (RLIMIT_CORE, a full disk).
                let bytes = bytes.min(self.bytes.saturating_sub(offset));
                address.checked_add(bytes)?;
                self.segments.push(Segment { address, offset, bytes });
                continue;
            }
            let Some(after) = left.checked_sub(bytes) else { continue };
            let Some(mut notes) = segment.notes(endian, cache).ok()? else { continue };
            left = after;
            while let Ok(Some(note)) = notes.next() {
                self.note(note.n_type(endian).0, note.desc(), indexes);
            }
        }
        Some(())
    }

    /// Reads a note. Those of a damaged file are left out.
    fn note(&mut self, kind: u32, bytes: &[u8], indexes: [usize; 3]) -> Option<()> {
        match kind {
            // The first thread is the one that got the signal.
            NT_PRSTATUS if self.thread == 0 => {
                for (place, index) in self.registers.iter_mut().zip(indexes) {
                    *place = number(bytes, REGISTERS_AT + index * 8)?;
                }
                self.thread = half(bytes, THREAD_AT)?;
            }
            NT_SIGINFO => {
                self.signal = half(bytes, 0)?;
                // Positive codes are of faults, which have an address.
                let is_fault = half(bytes, 8)? > 0 && self.signal == 11;
                self.address = is_fault.then_some(number(bytes, 16)? as usize);
            }
            NT_FILE if self.mappings.is_empty() => self.files(bytes)?,
            _ => {}
        }
        Some(())
    }

    fn files(&mut self, bytes: &[u8]) -> Option<()> {
        let (count, page) = (number(bytes, 0)? as usize, number(bytes, 8)?);
        let names = bytes.get(count.checked_mul(24)?.checked_add(16)?..)?.split(|byte| *byte == 0);
        for (index, name) in (0..count.min(MAPPINGS_MAX)).zip(names) {
            let word = |place: usize| number(bytes, 16 + index * 24 + place * 8);
            let path = String::from_utf8_lossy(name).into_owned();
            let (start, end, offset) = (word(0)?, word(1)?, word(2)?.checked_mul(page)?);
            self.mappings.push(Mapping { start, end, offset, path });
        }
        Some(())
    }

    /// The words of each table of guarded blocks, which begins at a page: `count` of them. A
    /// process has a table for each copy of the library that guards blocks.
    pub(crate) fn find_tables(&self, count: usize) -> Result<Vec<Vec<u64>>, Refusal> {
        let failed = |error| Refusal::no_input(format!("cannot read the dump: {error}"));
        let (mut tables, mut cut) = (Vec::new(), Ok(()));
        let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut buffer = vec![0; BUFFER_BYTES];
        // Parts of memory do not overlap in the file, so that all of them are no more than it.
        let mut left = self.bytes;
        for segment in &self.segments {
            let (mut at, end) = (segment.offset, segment.offset + segment.bytes.min(left));
            left -= end - at;
            while let Some(data) = self.next_data(at).filter(|data| *data < end) {
                // Pages begin where the segment begins.
                at += (data - at) / PAGE_BYTES as u64 * PAGE_BYTES as u64;
                let part = &mut buffer[..(end - at).min(BUFFER_BYTES as u64) as usize];
                self.file.read_exact_at(part, at).map_err(failed)?;
                let pages = part.chunks(PAGE_BYTES).enumerate();
                for (page, _) in pages.filter(|(_, page)| page.starts_with(&magic)) {
                    let mut words = vec![0; count * 8];
                    let offset = at + (page * PAGE_BYTES) as u64;
                    match self.file.read_exact_at(&mut words, offset) {
                        Ok(()) if tables.len() < TABLES_MAX => {
                            let words = words.chunks_exact(8).filter_map(|word| number(word, 0));
                            tables.push(words.collect());
                        }
                        Ok(()) => return Ok(tables),
                        Err(error) => cut = Err(failed(error)),
                    }
                }
                at += part.len() as u64;
            }
        }
        if tables.is_empty() { cut.map(|()| tables) } else { Ok(tables) }
    }

    /// Where there is data from `at` on; `None` if all of the rest is a hole.
    fn next_data(&self, at: u64) -> Option<u64> {
        match seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) => Some(data),
            Err(Errno::NXIO) => None,
            // The file system does not tell holes from zeros.
            Err(_) => (at < self.bytes).then_some(at),
        }
    }

    fn word(&self, address: u64) -> Option<u64> {
        let is_there = |segment: &&Segment| {
            let at = address.checked_sub(segment.address);
            at.and_then(|at| at.checked_add(8)).is_some_and(|end| end <= segment.bytes)
        };
        let segment = self.segments.iter().find(is_there)?;
        let mut bytes = [0; 8];
        let at = segment.offset + (address - segment.address);
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// The instruction at which the thread got the signal, and the return addresses of its callers,
    /// by frame pointers.
    pub(crate) fn frames(&self) -> Vec<usize> {
        let [counter, mut lowest, mut frame] = self.registers;
        let mut found = vec![counter as usize];
        while found.len() < FRAMES_MAX
            && frame >= lowest
            && let (Some(next), Some(caller)) = (self.word(frame), self.word(frame.wrapping_add(8)))
            && caller != 0
        {
            found.push(caller as usize);
            (lowest, frame) = (frame.saturating_add(1), next);
        }
        found
    }
}

#[cfg(test)]
#[path = "../../tests/unit/inspect_core_file.rs"]
mod tests;
