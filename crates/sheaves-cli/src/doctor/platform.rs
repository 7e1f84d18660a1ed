//! The kernel, the CPUs and the C library: what per-CPU transactions need.

use std::env;
use std::fs;

use rustix::thread::{MembarrierQuery, membarrier_query};

use super::report::Check;

/// Entries of the auxiliary vector; see `getauxval(3)`.
const AT_RSEQ_FEATURE_SIZE: u64 = 27;
const AT_RSEQ_ALIGN: u64 = 28;
/// The feature size from which the kernel maintains `mm_cid`.
const MM_CID_FEATURE_SIZE: u64 = 28;
/// The first glibc that registers rseq for every thread.
const GLIBC_WITH_RSEQ: (u32, u32) = (2, 35);

/// What the kernel reports about restartable sequences.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelRseq {
    /// Bytes of `struct rseq` that the kernel maintains; `None` before Linux 6.3.
    pub(crate) feature_size: Option<u64>,
    /// Alignment of `struct rseq` that the kernel requires.
    pub(crate) align: Option<u64>,
}

impl KernelRseq {
    /// Whether the kernel maintains `mm_cid`, a dense number for each running thread.
    pub(crate) fn has_mm_cid(&self) -> bool {
        self.feature_size.is_some_and(|size| size >= MM_CID_FEATURE_SIZE)
    }
}

/// Reads the auxiliary vector of this process.
pub(crate) fn kernel_rseq() -> KernelRseq {
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    KernelRseq {
        feature_size: entry(&vector, AT_RSEQ_FEATURE_SIZE),
        align: entry(&vector, AT_RSEQ_ALIGN),
    }
}

/// The value of one entry: pairs of native 64-bit words.
fn entry(vector: &[u8], wanted: u64) -> Option<u64> {
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
    vector
        .chunks_exact(16)
        .find(|pair| word(&pair[..8]) == Some(wanted))
        .and_then(|pair| word(&pair[8..]))
}

/// All checks of this module.
pub(crate) fn checks(kernel: &KernelRseq) -> Vec<Check> {
    let glibc = glibc_version();
    vec![system(), cpus(), c_library(glibc), rseq(kernel, glibc), mm_cid(kernel), membarrier()]
}

fn system() -> Check {
    let name = rustix::system::uname();
    let text = |part: &core::ffi::CStr| part.to_string_lossy().into_owned();
    let machine = text(name.machine());
    let found = format!("{} {} on {machine}", text(name.sysname()), text(name.release()));
    if ["x86_64", "aarch64"].contains(&machine.as_str()) {
        Check::ok("kernel", found)
    } else {
        Check::warn(
            "kernel",
            found,
            "x86_64 and aarch64 have the rseq engine; the portable one is used",
        )
    }
}

fn cpus() -> Check {
    let read = |name: &str| {
        fs::read_to_string(format!("/sys/devices/system/cpu/{name}"))
            .map_or_else(|_| "unknown".to_owned(), |list| list.trim().to_owned())
    };
    let found = format!("possible {}, online {}", read("possible"), read("online"));
    Check::ok("cpus", found)
}

/// The version in the banner of the C library that this command is linked to.
fn glibc_version() -> Option<(u32, u32)> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let path =
        maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5)).find(|path| {
            path.ends_with("/libc.so.6")
                || path.rsplit('/').next().is_some_and(|name| name.starts_with("libc-2"))
        })?;
    let library = fs::read(path).ok()?;
    let banner = b"GNU C Library";
    let start = library.windows(banner.len()).position(|window| window == banner)?;
    version_in(&String::from_utf8_lossy(&library[start..library.len().min(start + 200)]))
}

/// `... stable release version 2.36.` gives (2, 36).
fn version_in(banner: &str) -> Option<(u32, u32)> {
    let (_, rest) = banner.split_once("release version ")?;
    let mut numbers = rest.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn c_library(version: Option<(u32, u32)>) -> Check {
    match version {
        Some((major, minor)) => Check::ok("glibc", format!("{major}.{minor}")),
        None => Check::warn("glibc", "version unknown", "the preload object needs glibc"),
    }
}

/// Which side registers rseq. Only a program under the preload object shows what really happened.
fn rseq(kernel: &KernelRseq, glibc: Option<(u32, u32)>) -> Check {
    let size = match (kernel.feature_size, kernel.align) {
        (Some(size), Some(align)) => format!("feature size {size}, alignment {align}"),
        _ => "feature size unknown (kernel before 6.3)".to_owned(),
    };
    let tunables = env::var("GLIBC_TUNABLES").unwrap_or_default();
    let disabled = tunables.split(':').any(|tunable| tunable == "glibc.pthread.rseq=0");
    let by_glibc = glibc.is_some_and(|version| version >= GLIBC_WITH_RSEQ);
    let registers = match (by_glibc, disabled) {
        (true, false) => "registered by glibc",
        (true, true) => "left to Sheaves by GLIBC_TUNABLES",
        (false, _) => "left to Sheaves (glibc before 2.35)",
    };
    Check::ok("rseq", format!("{size}; {registers}"))
}

fn mm_cid(kernel: &KernelRseq) -> Check {
    if kernel.has_mm_cid() {
        Check::ok("mm_cid", "available: slots are numbered by running threads")
    } else {
        Check::warn(
            "mm_cid",
            "unavailable: slots are numbered by CPU",
            "Linux 6.3 or newer saves memory on machines with many CPUs",
        )
    }
}

fn membarrier() -> Check {
    let commands = membarrier_query();
    let wanted = [
        (MembarrierQuery::PRIVATE_EXPEDITED, "private-expedited"),
        (MembarrierQuery::PRIVATE_EXPEDITED_RSEQ, "private-expedited-rseq"),
    ];
    let (here, missing): (Vec<_>, Vec<_>) =
        wanted.into_iter().partition(|(command, _)| commands.contains(*command));
    let names = |list: &[(MembarrierQuery, &'static str)]| {
        list.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    };
    if missing.is_empty() {
        return Check::ok("membarrier", names(&here));
    }
    Check::warn(
        "membarrier",
        format!("refused: {}", names(&missing)),
        "slots are drained on their own CPU, which is slower; allow the command in the seccomp \
         profile or use a newer kernel",
    )
}

#[cfg(test)]
#[path = "../../tests/unit/doctor_platform.rs"]
mod tests;
