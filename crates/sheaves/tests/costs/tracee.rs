//! Executes a part of another process step by step, and counts.
//!
//! The other process runs this program, too, at other addresses. A critical section of rseq counts
//! as one instruction: a step in it would end it, and it is the same for each number of slots. What
//! reads the clock does not count: it begins again when the kernel's timer has run meanwhile.

use core::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use iced_x86::{Decoder, DecoderOptions};

use crate::machine::{self, PAST_BREAKPOINT};
use crate::sections::{self, Section};
use crate::traced::{self, Request, Traced};

/// What an operation has cost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Costs {
    pub(crate) instructions: usize,
    pub(crate) system_calls: usize,
}

/// A process of which one thread is traced.
pub(crate) struct Tracee {
    process: Child,
    thread: Traced,
    /// Of the process.
    detours: Vec<Detour>,
    /// The kernel's code in the process, which reads the clock.
    vdso: Range<usize>,
}

const SYSTEM_CALL: [u8; 2] = [0x0F, 0x05];

/// A critical section, and where it can be left.
struct Detour {
    section: Range<usize>,
    exits: Vec<usize>,
}

impl Tracee {
    /// Starts this program with an environment, up to its first [`libc::SIGSTOP`].
    pub(crate) fn start(variables: impl IntoIterator<Item = (&'static str, String)>) -> Tracee {
        let mut command = Command::new(std::env::current_exe().expect("this program's path"));
        command.envs(variables);
        // SAFETY: two system calls, which touch no memory.
        unsafe { command.pre_exec(traced::submit) };
        let process = command.spawn().expect("it starts");
        let thread = Traced(process.id().cast_signed());
        let mut tracee = Tracee { process, thread, detours: Vec::new(), vdso: 0..0 };
        assert_eq!(signal(thread.wait()), libc::SIGTRAP, "once it has started");
        let id = tracee.process.id().to_string();
        tracee.vdso = mapping(&id, "[vdso]").unwrap_or_default();
        let moved = base_of(&id).wrapping_sub(base_of("self"));
        tracee.detours = sections::of_program().into_iter().map(|one| detour(one, moved)).collect();
        tracee.skip();
        tracee
    }

    /// Executes the process up to its next turn, and counts.
    pub(crate) fn count(&self) -> Costs {
        let mut costs = Costs::default();
        loop {
            let address = machine::ip(self.thread);
            costs.instructions += usize::from(!self.vdso.contains(&address));
            costs.system_calls += usize::from(self.is_system_call(address));
            let detour = self.detours.iter().find(|detour| detour.section.contains(&address));
            let signal = match detour {
                Some(detour) => self.leave(&detour.exits),
                None => self.go(libc::PTRACE_SINGLESTEP),
            };
            match signal {
                libc::SIGTRAP => {}
                libc::SIGSTOP => return costs,
                other => panic!("signal {other} at {address:#x}"),
            }
        }
    }

    /// Executes the process up to its next turn.
    pub(crate) fn skip(&self) {
        assert_eq!(self.go(libc::PTRACE_CONT), libc::SIGSTOP);
    }

    /// Executes a critical section to its end.
    fn leave(&self, exits: &[usize]) -> libc::c_int {
        let planted: Vec<_> = exits.iter().map(|exit| self.thread.plant(*exit)).collect();
        let signal = self.go(libc::PTRACE_CONT);
        // The last first, since exits may be closer than a word.
        planted.into_iter().rev().for_each(|planted| self.thread.lift(planted));
        if signal == libc::SIGTRAP {
            machine::set_ip(self.thread, machine::ip(self.thread) - PAST_BREAKPOINT);
        }
        signal
    }

    fn is_system_call(&self, address: usize) -> bool {
        let code = self.thread.request(libc::PTRACE_PEEKTEXT, address, 0).to_ne_bytes();
        code.starts_with(&SYSTEM_CALL)
    }

    /// Lets the process run; the signal that stops it.
    fn go(&self, request: Request) -> libc::c_int {
        signal(self.thread.resume(request, 0))
    }
}

/// The signal of a wait status.
fn signal(status: i32) -> libc::c_int {
    assert!(libc::WIFSTOPPED(status), "the process ended: {status:#x}");
    libc::WSTOPSIG(status)
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where a process has this program, which is the first file of its mappings.
fn base_of(process: &str) -> usize {
    mapping(process, "/").expect("a file").start
}

/// The first mapping of a process whose line has this text.
fn mapping(process: &str, text: &str) -> Option<Range<usize>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let line = maps.lines().find(|line| line.contains(text))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let [start, end] = [start, end].map(|one| usize::from_str_radix(one, 16).expect("an address"));
    Some(start..end)
}

/// A section of this program, in another process where it is moved by some bytes.
fn detour(section: Section, moved: usize) -> Detour {
    let Section { entry, start, end, .. } = section;
    // SAFETY: code of this program, which is never written.
    let code = unsafe {
        core::slice::from_raw_parts(core::ptr::with_exposed_provenance(start), end - start)
    };
    let exits = Decoder::with_ip(64, code, start as u64, DecoderOptions::NONE)
        .into_iter()
        .map(|instruction| instruction.near_branch_target() as usize)
        // A jump back to the entry begins again, as an abort does.
        .filter(|target| *target != 0 && !(entry..end).contains(target));
    let there = |address: usize| address.wrapping_add(moved);
    let mut exits: Vec<_> = exits.chain([end]).map(there).collect();
    exits.sort_unstable();
    exits.dedup();
    Detour { section: there(start)..there(end), exits }
}
