//! Where the sections of this program are, and where their instructions begin.

use iced_x86::{Decoder, DecoderOptions};

/// What the kernel reads: `struct rseq_cs`.
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
    // The linker makes these two for every section whose name is an identifier.
    static __start___rseq_cs: Descriptor;
    static __stop___rseq_cs: Descriptor;
}

/// A section: where it is armed, its first instruction, the one after its commit, and its abort
/// handler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    pub(crate) entry: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) abort: usize,
}

/// All sections that are linked into this program.
pub(crate) fn of_program() -> Vec<Section> {
    let start = &raw const __start___rseq_cs;
    let count = ((&raw const __stop___rseq_cs).addr() - start.addr()) / size_of::<Descriptor>();
    // SAFETY: the linker gathers the descriptors between the two symbols, 32 bytes each; the
    // loader relocated them before any code ran, and nobody writes them.
    let descriptors = unsafe { core::slice::from_raw_parts(start, count) };
    let section = |descriptor: &Descriptor| {
        assert_eq!((descriptor.version, descriptor.flags), (0, 0));
        let Descriptor { start, length, abort, .. } = *descriptor;
        Section::new(start, start + length, abort)
    };
    descriptors.iter().map(section).collect()
}

impl Section {
    /// The entry is where the abort handler, which is one jump, leads to.
    pub(crate) fn new(start: usize, end: usize, abort: usize) -> Section {
        const JUMP_BYTES_MAX: usize = 5;
        let jump = decoder(abort, abort + JUMP_BYTES_MAX).decode();
        // 0 for what is no near branch.
        let entry = jump.near_branch_target() as usize;
        assert!(entry != 0 && entry < start, "{jump:?} at {abort:#x}");
        Section { entry, start, end, abort }
    }

    /// Where an instruction begins, from the entry to the one after the commit.
    pub(crate) fn boundaries(&self) -> Vec<usize> {
        let mut boundaries = vec![self.entry];
        for instruction in decoder(self.entry, self.end) {
            assert!(!instruction.is_invalid(), "at {:#x}", instruction.ip());
            boundaries.push(instruction.next_ip() as usize);
        }
        assert!(boundaries.contains(&self.start));
        assert_eq!(boundaries.last(), Some(&self.end));
        boundaries
    }
}

fn decoder(first: usize, end: usize) -> Decoder<'static> {
    let start = core::ptr::with_exposed_provenance::<u8>(first);
    // SAFETY: instructions of this program, which nobody writes (breakpoints are the child's).
    let code = unsafe { core::slice::from_raw_parts(start, end - first) };
    Decoder::with_ip(64, code, first as u64, DecoderOptions::NONE)
}
