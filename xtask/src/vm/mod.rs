//! `cargo xtask vm`: runs tests and programs on a Linux kernel of Debian's in qemu, of this
//! machine's architecture or of another.
//!
//! The kernel and busybox come from Debian's packages, by an apt of its own that leaves this
//! system's alone; everything is kept in the cache folder. Programs are built here, for the
//! machine's architecture, and go into an initramfs with the libraries that they name. The machine
//! has no disk and no network. Its console is printed, and the exit status of the command in it is
//! this command's.

mod cpio;
mod image;
mod machine;
mod options;
mod packages;
mod programs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};

use crate::consumers::has;
use crate::repo;
use machine::Machine;
use options::PLACE;
pub use options::{Options, Pages};
use packages::Apt;

/// Runs the machine; the status is that of its command.
pub fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    for (tool, package) in options.required() {
        ensure!(has(&tool), "{tool} is missing: install {package}");
    }
    repo::require_target(root, &options.arch.target(options.libc()))?;
    let cache = cache_folder()?;
    let apt = Apt::new(&cache, options.arch)?;
    let kernel = kernel(&apt, options)?;
    let tree = cache.join("tree").join(format!("{}-{}", options.arch.name(), std::process::id()));
    let _removed = Removed(&tree);
    apt.unpack(&["busybox-static"], &tree)?;
    apt.unpack(&options.package, &tree)?;
    let names = programs::put(root, options, &tree.join(PLACE))?;
    let all = names.iter().map(|name| format!("./{name} || status=1")).collect::<Vec<_>>();
    let command =
        options.cmd.clone().unwrap_or_else(|| format!("{}; exit $status", all.join("; ")));
    image::add_libraries(options.arch, &tree)?;
    let initramfs = tree.with_extension("cpio");
    let _removed_too = Removed(&initramfs);
    image::write(&tree, &command, &initramfs)?;
    let status = Machine { options, kernel: &kernel, initramfs: &initramfs }.run()?;
    println!("vm: exit status {status}");
    Ok(ExitCode::from(status))
}

/// Where packages are kept from one run to the next.
fn cache_folder() -> anyhow::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("SHEAVES_VM_CACHE") {
        return Ok(folder.into());
    }
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("sheaves-vm"))
}

/// The kernel's image.
fn kernel(apt: &Apt, options: &Options) -> anyhow::Result<PathBuf> {
    let file = Path::new(&options.kernel);
    let package = match (file.is_file(), file.extension()) {
        (true, Some(extension)) if extension == "deb" => file.to_owned(),
        (true, _) => return Ok(file.to_owned()),
        (false, _) => apt.kernel(&options.kernel, options.pages)?,
    };
    apt.image_of(&package)
}

/// Removes a file or folder at its end.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = Command::new("rm").arg("-rf").arg(self.0).status();
    }
}
