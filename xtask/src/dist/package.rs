//! The packages, and the properties that they share.

use std::path::PathBuf;

use crate::arch::Arch;

/// A package and its files: those whose path below `/usr` begins with one of `takes`.
pub(super) struct Package {
    pub(super) name: &'static str,
    pub(super) section: &'static str,
    /// Dependencies other than the libraries that its programs are linked to.
    pub(super) depends: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// `LIB` stands for the folder of libraries. A file that several packages match goes to the
    /// first.
    pub(super) takes: &'static [&'static str],
}

pub(super) const PACKAGES: [Package; 3] = [
    Package {
        name: "libsheaves0",
        section: "libs",
        depends: "",
        summary: "per-CPU memory and RCU",
        description: "Memory allocator, object caches, per-CPU memory and read-copy-update, whose \
                      fast paths need neither a lock nor an atomic instruction.",
        takes: &["LIB/libsheaves.so."],
    },
    Package {
        name: "libsheaves-dev",
        section: "libdevel",
        depends: "libsheaves0 (= VERSION)",
        summary: "per-CPU memory and RCU, for programs in C and C++",
        description: "Headers, manual pages and an archive for programs that use Sheaves; headers \
                      with which programs for liburcu compile unchanged.",
        takes: &["LIB/", "include/", "share/pkgconfig/", "share/cmake/", "share/man/man3/"],
    },
    Package {
        name: "sheaves",
        section: "utils",
        depends: "",
        summary: "runs programs on a memory allocator without locks",
        description: "Command that runs any program on the allocator of Sheaves, without changing \
                      it, and that tells what a machine offers to it.",
        takes: &["bin/", "lib/sheaves/", "share/"],
    },
];

/// Properties of all packages.
pub(super) struct Release {
    /// Folder of the results.
    pub(super) target: PathBuf,
    pub(super) version: String,
    /// Debian's name of the architecture.
    pub(super) architecture: String,
    /// The architecture, if it is not this machine's.
    pub(super) other: Option<Arch>,
    /// Folder of libraries below `/usr`.
    pub(super) libdir: PathBuf,
    /// Seconds since 1970, so that the same source gives the same packages.
    pub(super) time: String,
}
