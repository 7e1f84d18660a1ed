//! Executes a part of another process step by step, and counts.
//!
//! The other process runs this program, too, at other addresses. A critical section of rseq counts
//! as one instruction: a step in it would end it, and it is the same for each number of slots.

use core::ffi::c_void;
use core::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use iced_x86::{Decoder, DecoderOptions};

use crate::machine::{self, BREAKPOINT};
use crate::sections::{self, Section};

/// What an operation has cost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Costs {
    pub(crate) instructions: usize,
    pub(crate) system_calls: usize,
}

/// A process of which one thread is traced.
pub(crate) struct Tracee {
    process: Child,
    /// Of the process.
    detours: Vec<Detour>,
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
        unsafe { command.pre_exec(submit) };
        let process = command.spawn().expect("it starts");
        let mut tracee = Tracee { process, detours: Vec::new() };
        assert_eq!(tracee.wait(), libc::SIGTRAP, "once it has started");
        let moved = base_of(&tracee.process.id().to_string()).wrapping_sub(base_of("self"));
        tracee.detours = sections::of_program().into_iter().map(|one| detour(one, moved)).collect();
        tracee.skip();
        tracee
    }

    /// Executes the process up to its next turn, and counts.
    pub(crate) fn count(&self) -> Costs {
        let mut costs = Costs::default();
        loop {
            let address = machine::ip(self);
            costs.instructions += 1;
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
        // Lifted last first, since exits may be closer than a word.
        let planted: Vec<_> = exits
            .iter()
            .map(|exit| {
                let (exit, before) = (*exit, self.request(libc::PTRACE_PEEKTEXT, *exit, 0));
                let mut bytes = before.to_ne_bytes();
                bytes[..BREAKPOINT.len()].copy_from_slice(&BREAKPOINT);
                self.poke(exit, libc::c_long::from_ne_bytes(bytes));
                (exit, before)
            })
            .collect();
        let signal = self.go(libc::PTRACE_CONT);
        for (exit, before) in planted.into_iter().rev() {
            self.poke(exit, before);
        }
        if signal == libc::SIGTRAP {
            machine::set_ip(self, machine::ip(self) - BREAKPOINT.len());
        }
        signal
    }

    fn is_system_call(&self, address: usize) -> bool {
        let code = self.request(libc::PTRACE_PEEKTEXT, address, 0).to_ne_bytes();
        code.starts_with(&SYSTEM_CALL)
    }

    fn poke(&self, address: usize, word: libc::c_long) {
        self.request(libc::PTRACE_POKETEXT, address, word.cast_unsigned() as usize);
    }

    /// Lets the process run; the signal that stops it.
    fn go(&self, request: libc::c_uint) -> libc::c_int {
        self.request(request, 0, 0);
        self.wait()
    }

    fn pid(&self) -> libc::pid_t {
        self.process.id().cast_signed()
    }

    fn wait(&self) -> libc::c_int {
        let mut status = 0;
        // SAFETY: `status` is valid for writes.
        let pid = unsafe { libc::waitpid(self.pid(), &raw mut status, 0) };
        assert_eq!(pid, self.pid());
        assert!(libc::WIFSTOPPED(status), "the process ended: {status:#x}");
        libc::WSTOPSIG(status)
    }

    pub(crate) fn request(
        &self,
        request: libc::c_uint,
        address: usize,
        data: usize,
    ) -> libc::c_long {
        let address = core::ptr::without_provenance_mut::<c_void>(address);
        let data = core::ptr::without_provenance_mut::<c_void>(data);
        // SAFETY: libc's own variable of this thread.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above. A value that was read may be -1, so errno distinguishes errors.
        unsafe { errno.write(0) };
        // SAFETY: the process's memory and registers are changed, not those of this one.
        let result = unsafe { libc::ptrace(request, self.pid(), address, data) };
        let error = std::io::Error::last_os_error();
        assert!(result != -1 || error.raw_os_error() == Some(0), "{request}: {error}");
        result
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// In the new process: requests to be traced, and to end with the tracer.
fn submit() -> std::io::Result<()> {
    // SAFETY: integers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let none = core::ptr::null_mut::<c_void>();
    // SAFETY: no memory is touched.
    let status = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, none, none) };
    if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Where a process has this program, which is the first file of its mappings.
fn base_of(process: &str) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("its mappings");
    let file = maps.lines().find(|line| line.contains('/')).expect("a file");
    let (base, _) = file.split_once('-').expect("a range");
    usize::from_str_radix(base, 16).expect("an address")
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
