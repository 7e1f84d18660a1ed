//! An architecture to build for, and the names that Rust, Debian and the compilers have for it.
//!
//! [`crate::vm`] and [`crate::dist`] build for machines other than this one, with Debian's compiler
//! for them.

use std::process::Command;

/// An architecture, by Rust's name; by Debian's name, too, on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(non_camel_case_types, reason = "the names of targets")]
pub enum Arch {
    /// 64-bit ARM.
    #[value(name = "aarch64", alias = "arm64")]
    aarch64,
    /// 64-bit x86.
    #[value(name = "x86_64", alias = "amd64")]
    x86_64,
}

/// The C library of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Libc {
    /// glibc.
    Gnu,
    /// musl, which programs are linked to statically.
    Musl,
}

impl Arch {
    /// Rust's and qemu's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arch::aarch64 => "aarch64",
            Arch::x86_64 => "x86_64",
        }
    }

    /// Debian's name.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Arch::aarch64 => "arm64",
            Arch::x86_64 => "amd64",
        }
    }

    pub(crate) fn is_here(self) -> bool {
        std::env::consts::ARCH == self.name()
    }

    /// The name that Debian's folders of libraries and compilers have.
    pub(crate) fn triplet(self) -> String {
        format!("{}-linux-gnu", self.name())
    }

    /// The target of Rust.
    pub(crate) fn target(self, libc: Libc) -> String {
        let libc = match libc {
            Libc::Gnu => "gnu",
            Libc::Musl => "musl",
        };
        format!("{}-unknown-linux-{libc}", self.name())
    }

    /// The C compiler for it, which also is the linker, of static programs of musl, too: Rust's
    /// target has their C library.
    pub(crate) fn compiler(self) -> String {
        if self.is_here() { "cc".into() } else { format!("{}-gcc", self.triplet()) }
    }

    /// The program that removes symbols from its objects.
    pub(crate) fn strip(self) -> String {
        if self.is_here() { "strip".into() } else { format!("{}-strip", self.triplet()) }
    }

    /// These two programs, each with its package.
    pub(crate) fn tools(self) -> [(String, String); 2] {
        let suffix = match self.is_here() {
            true => String::new(),
            false => format!("-{}", self.triplet().replace('_', "-")),
        };
        [(self.compiler(), format!("gcc{suffix}")), (self.strip(), format!("binutils{suffix}"))]
    }

    /// Makes cargo build for this architecture.
    pub(crate) fn build_for(self, cargo: &mut Command, libc: Libc) {
        let target = self.target(libc);
        let word = target.replace('-', "_");
        cargo.args(["--target", &target]);
        cargo.env(format!("CARGO_TARGET_{}_LINKER", word.to_uppercase()), self.compiler());
        cargo.env(format!("CC_{word}"), self.compiler());
    }
}
