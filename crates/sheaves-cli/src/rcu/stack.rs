//! The stack of a thread of another process, by its frame pointers.
//!
//! The thread is stopped for some microseconds by ptrace(2), and runs again whatever happens: if
//! this command ends before, the kernel detaches it.

use core::time::Duration;
use std::thread::sleep;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io::IoSliceMut;

use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, Symbolized, Symbolizer};

/// The innermost function first, or why there is no stack.
pub(crate) type Stack = Result<Vec<String>, String>;

const FRAMES_MAX: usize = 64;
/// Frames are not farther apart than this.
const FRAME_BYTES_MAX: u64 = 1 << 20;
/// A thread that cannot be stopped within this time is in the kernel.
const STOP: Duration = Duration::from_millis(500);

/// The stack of a thread.
pub(crate) fn of(pid: u32, tid: i32) -> Stack {
    let addresses = Stopped::stop(tid)?.addresses()?;
    let described = |address: &u64| format!("{address:#x}");
    let mut source = Process::new(pid.into());
    // Links of `/proc/PID/map_files` are for root only.
    source.map_files = false;
    let symbolizer = Symbolizer::new();
    let source = Source::Process(source);
    let Ok(symbols) = symbolizer.symbolize(&source, Input::AbsAddr(&addresses)) else {
        return Ok(addresses.iter().map(described).collect());
    };
    let name = |(address, symbol): (&u64, &Symbolized<'_>)| match symbol {
        Symbolized::Sym(symbol) => match &symbol.code_info {
            Some(place) => {
                let line = place.line.unwrap_or(0);
                format!("{} at {}:{line}", symbol.name, place.to_path().display())
            }
            None => symbol.name.to_string(),
        },
        Symbolized::Unknown(_) => described(address),
    };
    Ok(addresses.iter().zip(&symbols).map(name).collect())
}

/// A thread that is stopped, and runs again when this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(tid: i32) -> Result<Self, String> {
        let thread = Pid::from_raw(tid);
        ptrace::seize(thread, ptrace::Options::empty()).map_err(|error| match error {
            Errno::EPERM => "ptrace is not permitted (try as root)".to_owned(),
            Errno::ESRCH => "the thread has ended".to_owned(),
            error => format!("ptrace: {error}"),
        })?;
        let stopped = Self(thread);
        ptrace::interrupt(thread).map_err(|error| format!("ptrace: {error}"))?;
        let begin = Instant::now();
        while begin.elapsed() < STOP {
            match waitpid(thread, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => sleep(Duration::from_micros(50)),
                Ok(WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..)) => return Ok(stopped),
                _ => return Err("the thread has ended".to_owned()),
            }
        }
        Err("the thread does not leave the kernel".to_owned())
    }

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
            // The call, not the instruction after it.
            addresses.push(caller - 1);
            (above, frame) = (frame + 16, next);
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

impl Drop for Stopped {
    fn drop(&mut self) {
        // It fails for a thread that has ended, and for one that is not stopped: the kernel
        // detaches that one when this command ends.
        let _ = ptrace::detach(self.0, None);
    }
}
