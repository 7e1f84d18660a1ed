//! What to run, and on which machine.

use std::path::PathBuf;

use crate::arch::{Arch, Libc};

/// Bytes of a page of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Pages {
    /// 4 KiB.
    #[value(name = "4k")]
    Of4KiB,
    /// 16 KiB, on aarch64.
    #[value(name = "16k")]
    Of16KiB,
    /// 64 KiB, on aarch64, with a kernel of your own: Debian has none.
    #[value(name = "64k")]
    Of64KiB,
}

/// What to run, and where.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The machine's architecture.
    #[arg(long, value_enum, default_value_t = Arch::x86_64)]
    pub arch: Arch,
    /// Number of CPUs.
    #[arg(long, default_value_t = 4)]
    pub cpus: u32,
    /// Page size of the kernel.
    #[arg(long, value_enum, default_value = "4k")]
    pub pages: Pages,
    /// Beginning of the kernel's version (5.10, 6.1, 6.12), or a file: its package or image.
    #[arg(long, default_value = "6.1")]
    pub kernel: String,
    /// Memory in MiB.
    #[arg(long, default_value_t = 3072)]
    pub memory_mib: u32,
    /// Run on this machine's processor, by KVM, instead of emulating one.
    #[arg(long)]
    pub hardware: bool,
    /// Minutes after which the machine is stopped.
    #[arg(long, default_value_t = 30)]
    pub minutes: u64,
    /// Build the tests of a crate, or one of them: CRATE or CRATE:TEST.
    #[arg(long, value_name = "CRATE")]
    pub tests: Vec<String>,
    /// Build the tests for musl, as static programs.
    #[arg(long, conflicts_with = "tools")]
    pub musl: bool,
    /// Build the command, the preload object and the examples in C.
    #[arg(long)]
    pub tools: bool,
    /// Add a package of Debian's, with what it depends on.
    #[arg(long, value_name = "NAME")]
    pub package: Vec<String>,
    /// Add a file or a folder.
    #[arg(long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// What the machine's shell runs; without this, all tests one after the other.
    #[arg(long)]
    pub cmd: Option<String>,
}

/// The folder of the machine in which its programs are.
pub(super) const PLACE: &str = "sheaves";

impl Options {
    /// The C library of what is built.
    pub(super) fn libc(&self) -> Libc {
        if self.musl { Libc::Musl } else { Libc::Gnu }
    }

    /// Programs that have to be here, each with its package.
    pub(super) fn required(&self) -> Vec<(String, String)> {
        let qemu = match self.arch {
            Arch::aarch64 => ("qemu-system-aarch64", "qemu-system-arm"),
            Arch::x86_64 => ("qemu-system-x86_64", "qemu-system-x86"),
        };
        let tools = [("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("readelf", "binutils"), qemu];
        let owned = tools.map(|(tool, package)| (tool.to_owned(), package.to_owned()));
        owned.into_iter().chain(self.arch.tools()).collect()
    }
}
