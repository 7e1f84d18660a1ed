//! The stack of a thread of another process, by its frame pointers.
//!
//! The thread is stopped for some microseconds by ptrace(2), and runs again whatever happens: all
//! is done by a thread of its own, and the kernel detaches what that has seized when it ends.
//!
//! The stop may be that of a signal which reaches the thread meanwhile. The kernel delivers it when
//! it detaches the thread, unless `wait` has taken the stop: so it is looked at and not taken.
//!
//! It is the process that says which thread is to be stopped, so that is not believed. A thread
//! that is seized goes on, and its number cannot become another's; so it is seized first, then
//! looked up among the threads of the process, and only then stopped.

use core::time::Duration;
use std::io::IoSliceMut;
use std::thread::sleep;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::process::{self, WaitId, WaitIdOptions, waitid};

use crate::ask::apart;
use crate::ask::process::Process;
use crate::prof::symbols::Symbols;

/// The innermost function first, or why there is no stack.
pub(crate) type Stack = Result<Vec<String>, String>;

const FRAMES_MAX: usize = 64;
/// Frames are not farther apart than this.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// A thread that cannot be stopped within this time is in the kernel.
const STOP: Duration = Duration::from_millis(500);
/// All of it takes no longer.
const LIMIT: Duration = Duration::from_secs(1);

/// The stack of a thread, by its number in the process's own namespace.
pub(crate) fn of(process: &Process, own_number: i32) -> Stack {
    let of = process.clone();
    let read = apart::within(LIMIT, move || {
        // Before the stop, which lasts until this thread ends.
        let mappings = of.mappings();
        let addresses = Stopped::stop(&of, own_number)?.addresses()?;
        Ok((addresses, mappings))
    });
    let (addresses, mappings) =
        read.unwrap_or_else(|| Err(format!("it takes more than {} s", LIMIT.as_secs())))?;
    let mut symbols = Symbols::of_process(process.pid, mappings);
    let mut names = Vec::new();
    for (index, address) in addresses.into_iter().enumerate() {
        // As if it were a return address, for the look-up.
        let after = address.saturating_add(u64::from(index == 0));
        names.extend(symbols.frames(after).into_iter().map(|frame| match frame.line {
            0 => frame.function,
            line => format!("{} at {}:{line}", frame.function, frame.file),
        }));
    }
    Ok(names)
}

/// A thread that is stopped, and runs again when the thread of this command that seized it ends.
struct Stopped(Pid);

impl Stopped {
    fn stop(process: &Process, own_number: i32) -> Result<Self, String> {
        let absent = || "the process has no such thread".to_owned();
        let number = process.thread(own_number).ok_or_else(absent)?;
        let thread = Pid::from_raw(number);
        ptrace::seize(thread, ptrace::Options::empty()).map_err(|error| match error {
            Errno::EPERM => "ptrace is not permitted (try as root)".to_owned(),
            Errno::ESRCH => "the thread has ended".to_owned(),
            error => format!("ptrace: {error}"),
        })?;
        if !process.has_thread(number, own_number) {
            return Err(absent());
        }
        ptrace::interrupt(thread).map_err(|error| format!("ptrace: {error}"))?;
        let begin = Instant::now();
        let of = WaitId::Pid(process::Pid::from_raw(number).ok_or_else(absent)?);
        let events = WaitIdOptions::STOPPED | WaitIdOptions::EXITED;
        while begin.elapsed() < STOP {
            match waitid(of.clone(), events | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {
                Ok(None) => sleep(Duration::from_micros(50)),
                Ok(Some(status)) if status.trapped() => return Ok(Self(thread)),
                _ => return Err("the thread has ended".to_owned()),
            }
        }
        Err("the thread does not leave the kernel".to_owned())
    }

    /// The address of the instruction, then those to which functions return.
    fn addresses(&self) -> Result<Vec<u64>, String> {
        let [instruction, mut frame, mut above] = self.registers()?;
        let mut addresses = vec![instruction];
        while addresses.len() < FRAMES_MAX
            && frame.is_multiple_of(8)
            && (above..above.saturating_add(FRAME_BYTES_MAX)).contains(&frame)
        {
            let Some([next, caller]) = self.read(frame).filter(|[_, caller]| *caller != 0) else {
                break;
            };
            addresses.push(caller);
            (above, frame) = (frame.saturating_add(16), next);
        }
        Ok(addresses)
    }

    /// The program counter, the frame pointer and the stack pointer.
    #[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
    fn registers(&self) -> Result<[u64; 3], String> {
        let registers = ptrace::getregs(self.0).map_err(|error| format!("registers: {error}"))?;
        #[cfg(target_arch = "aarch64")]
        return Ok([registers.pc, registers.regs[29], registers.sp]);
        #[cfg(target_arch = "x86_64")]
        return Ok([registers.rip, registers.rbp, registers.rsp]);
    }

    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    fn registers(&self) -> Result<[u64; 3], String> {
        Err("not on this architecture".to_owned())
    }

    /// Two words of the thread's memory.
    fn read(&self, address: u64) -> Option<[u64; 2]> {
        let mut bytes = [0; 16];
        let remote = RemoteIoVec { base: usize::try_from(address).ok()?, len: bytes.len() };
        let count = process_vm_readv(self.0, &mut [IoSliceMut::new(&mut bytes)], &[remote]).ok()?;
        let word = |at: usize| Some(u64::from_ne_bytes(bytes[at..at + 8].try_into().ok()?));
        (count == 16).then_some([word(0)?, word(8)?])
    }
}
