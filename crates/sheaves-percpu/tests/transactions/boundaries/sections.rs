//! The rseq critical sections of this program, and their instruction boundaries.

use super::machine;

/// The kernel's `struct rseq_cs`.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start: usize,
    length: usize,
    abort: usize,
}

const _: () = assert!(size_of::<Descriptor>() == 32);

unsafe extern "C" {
    // The linker defines these two for every ELF section whose name is an identifier.
    static __start___rseq_cs: Descriptor;
    static __stop___rseq_cs: Descriptor;
}

/// A critical section: the instruction that arms it, its first instruction, the one after its
/// commit, and its abort handler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub(crate) entry: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) abort: usize,
    /// The abort handler goes to a slow path, and not back to the entry.
    pub(crate) leaves: bool,
}

/// All critical sections that are linked into this program.
pub(crate) fn of_program() -> Vec<Section> {
    let start = &raw const __start___rseq_cs;
    let count = ((&raw const __stop___rseq_cs).addr() - start.addr()) / size_of::<Descriptor>();
    // SAFETY: the linker places the descriptors between the two symbols, 32 bytes each. The loader
    // relocated them before any code ran, and they are never written.
    let descriptors = unsafe { core::slice::from_raw_parts(start, count) };
    let section = |descriptor: &Descriptor| {
        assert_eq!((descriptor.version, descriptor.flags), (0, 0));
        let Descriptor { start, length, abort, .. } = *descriptor;
        Section::new(start, start + length, abort)
    };
    descriptors.iter().map(section).collect()
}

impl Section {
    /// The entry is the target of the abort handler, which is one jump. One that jumps out of the
    /// function, to its slow path, is to be entered at the instructions that arm it.
    pub(crate) fn new(start: usize, end: usize, abort: usize) -> Section {
        const FUNCTION_BYTES: usize = 128;
        let target = machine::jump_target(abort);
        let is_in_function = (start - FUNCTION_BYTES..start).contains(&target);
        let entry = if is_in_function { target } else { start - machine::ARM_BYTES };
        Section { entry, start, end, abort, leaves: !is_in_function }
    }

    /// Start of each instruction, from the entry to the one after the commit.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let mut boundaries = vec![self.entry];
        boundaries.extend(machine::instruction_ends(self.entry, self.end));
        assert!(boundaries.contains(&self.start));
        assert_eq!(boundaries.last(), Some(&self.end));
        boundaries
    }
}
