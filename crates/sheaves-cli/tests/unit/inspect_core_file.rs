//! Tests of `src/inspect/core_file.rs`.

use proptest::collection::vec;
use proptest::prelude::*;
use sheaves_slab::internal::trap::layout::WORDS;

use super::*;

const MEMORY_AT: u64 = 4096;
const ADDRESS: u64 = 0x1000;

fn note(kind: u32, bytes: &[u8]) -> Vec<u8> {
    let head = [5, bytes.len() as u32, kind].map(u32::to_le_bytes).concat();
    [&head, &b"CORE\0\0\0\0"[..], bytes].concat()
}

fn header(kind: u32, offset: u64, address: u64, bytes: u64) -> Vec<u8> {
    let words = [offset, address, 0, bytes, bytes, 4];
    let [kind, rights] = [kind, 4].map(u32::to_le_bytes);
    [kind, rights]
        .into_iter()
        .flatten()
        .chain(words.into_iter().flat_map(u64::to_le_bytes))
        .collect()
}

/// A dump of a process with one page of memory and one mapped file.
fn dump() -> Vec<u8> {
    let mut status = [0; 336];
    status[THREAD_AT] = 77;
    for (index, value) in [(16, 0x1234), (19, ADDRESS), (4, ADDRESS)] {
        let at = REGISTERS_AT + index * 8;
        status[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
    }
    let mut signal = [0; 128];
    (signal[0], signal[8], signal[16]) = (11, 1, 8);
    let file = [1, 4096, 0x1000, 0x2000, 3].map(u64::to_le_bytes).concat();
    let file = [&file[..], b"/lib\0\0\0\0"].concat();
    let notes = [note(NT_PRSTATUS, &status), note(NT_SIGINFO, &signal), note(NT_FILE, &file)];
    let notes = notes.concat();
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([4, 0, 62, 0, 1, 0, 0, 0]);
    bytes.extend([0, 64, 0].map(u64::to_le_bytes).concat());
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    bytes.extend(header(4, 176, 0, notes.len() as u64));
    bytes.extend(header(1, MEMORY_AT, ADDRESS, 4096));
    bytes.extend(notes);
    bytes.resize(MEMORY_AT as usize, 0);
    bytes.extend([ADDRESS + 16, 0x5678, 0, 0].map(u64::to_le_bytes).concat());
    bytes.resize(MEMORY_AT as usize + 4096, 0);
    bytes
}

fn core_of(bytes: &[u8]) -> Result<Core, Refusal> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    Core::open(file.path())
}

#[test]
fn a_dump_has_thread_signal_files_and_stack() {
    let core = core_of(&dump()).unwrap();
    assert_eq!((core.thread, core.signal, core.address), (77, 11, Some(8)));
    let path = "/lib".to_owned();
    assert_eq!(core.mappings, [Mapping { start: 0x1000, end: 0x2000, offset: 3 * 4096, path }]);
    assert_eq!(core.frames(), [0x1234, 0x5678]);
    assert!(core.find_tables(WORDS).unwrap().is_empty());
}

#[test]
fn all_tables_are_found() {
    let mut dump = dump();
    let pages = 2 * TABLES_MAX + 1;
    dump.resize(MEMORY_AT as usize + pages * PAGE_BYTES, 0);
    // The header of the memory is the second one, and has its bytes in two words.
    for at in [64 + 56 + 32, 64 + 56 + 40] {
        dump[at..at + 8].copy_from_slice(&((pages * PAGE_BYTES) as u64).to_le_bytes());
    }
    let mut with_tables = |numbers: &[usize]| {
        for page in numbers {
            let words = [MAGIC[0], MAGIC[1], *page as u64].map(u64::to_le_bytes).concat();
            let at = MEMORY_AT as usize + page * PAGE_BYTES;
            dump[at..at + words.len()].copy_from_slice(&words);
        }
        let tables = core_of(&dump).unwrap().find_tables(PAGE_BYTES / 8).unwrap();
        tables.iter().map(|words| words[2] as usize).collect::<Vec<_>>()
    };
    assert_eq!(with_tables(&[1, 7]), [1, 7]);
    assert_eq!(with_tables(&(0..pages).collect::<Vec<_>>()).len(), TABLES_MAX);
}

proptest! {
    /// Whatever is in it: the reader ends, with what the file has.
    #[test]
    fn no_dump_harms_the_reader(
        changes in vec((0..600_usize, any::<u8>()), 0..8),
        bytes in prop_oneof![Just(8192), 0..8192_usize],
        magic_at in 0..8192_usize,
    ) {
        let mut dump = dump();
        changes.iter().for_each(|(at, byte)| dump[*at] = *byte);
        let magic: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
        let end = (magic_at + magic.len()).min(dump.len());
        dump[magic_at..end].copy_from_slice(&magic[..end - magic_at]);
        dump.truncate(bytes);
        if let Ok(core) = core_of(&dump) {
            prop_assert!(core.mappings.len() <= 1 + dump.len() / 25);
            prop_assert!(core.frames().len() <= FRAMES_MAX);
            let _ = core.find_tables(WORDS);
        }
    }
}
