//! The machine's first and only file system: a tree of files as an initramfs.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::cpio::Archive;
use super::machine::STATUS;
use super::options::PLACE;
use crate::arch::Arch;
use crate::repo;

/// What the kernel starts: prepares the machine, runs the command, and turns the machine off.
fn init() -> String {
    format!(
        "#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /tmp /run /root /etc /bin /busybox
$b --install -s /busybox
$b test -e /bin/sh || $b ln -s /busybox/sh /bin/sh
export PATH=/{PLACE}:/usr/bin:/usr/sbin:/bin:/sbin:/busybox
export HOME=/root TERM=dumb RUST_BACKTRACE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /sys/fs/cgroup
mount -t tmpfs tmp /tmp
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t cgroup2 cgroup /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
ln -sf /proc/self/fd/0 /dev/stdin
$b test -e /etc/passwd || echo root:x:0:0:root:/root:/bin/sh > /etc/passwd
ifconfig lo 127.0.0.1 up
cd /{PLACE}
sh /command < /dev/null
echo \"{STATUS} $?\"
poweroff -f
"
    )
}

/// Writes the initramfs: the tree and the command.
pub(super) fn write(tree: &Path, command: &str, to: &Path) -> anyhow::Result<()> {
    let file = fs::File::create(to).with_context(|| to.display().to_string())?;
    let mut archive = Archive::new(BufWriter::new(file));
    archive.add_folder(tree, tree).with_context(|| tree.display().to_string())?;
    archive.add_program("init", init().as_bytes())?;
    archive.add_program("command", format!("status=0\n{command}\n").as_bytes())?;
    archive.finish()?;
    Ok(())
}

/// Adds the loader and the libraries that the programs in [`PLACE`] name, from the compiler's own
/// folders, unless a package has brought them.
pub(super) fn add_libraries(arch: Arch, tree: &Path) -> anyhow::Result<()> {
    let mut files: Vec<_> = fs::read_dir(tree.join(PLACE))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    let folders = ["lib", "usr/lib"].map(|folder| tree.join(folder));
    let triplet = arch.triplet();
    while let Some(file) = files.pop() {
        for name in needed(&file)? {
            let base = Path::new(&name).file_name().context("a library without a name")?;
            let is_here = folders.iter().any(|folder| {
                folder.join(base).exists() || folder.join(&triplet).join(base).exists()
            }) || tree.join(PLACE).join(base).exists();
            if is_here {
                continue;
            }
            let from = library(arch, base)?;
            let to = match name.strip_prefix('/') {
                Some(loader) => tree.join(loader),
                None => tree.join("lib").join(base),
            };
            crate::install::make_folder_of(&to)?;
            fs::copy(&from, &to).with_context(|| from.display().to_string())?;
            files.push(to);
        }
    }
    Ok(())
}

/// The libraries that an ELF file names, and its loader with its whole path; nothing for other
/// files.
fn needed(file: &Path) -> anyhow::Result<Vec<String>> {
    if !fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")) {
        return Ok(Vec::new());
    }
    let text = repo::output_of(
        Command::new("readelf").arg("--dynamic").arg("--program-headers").arg(file),
    )?;
    let library = |line: &str| {
        line.contains("(NEEDED)")
            .then(|| line.split(['[', ']']).nth(1).map(str::to_owned))
            .flatten()
    };
    let loader = |line: &str| {
        line.split_once("interpreter: ").map(|(_, path)| path.trim_end_matches(']').to_owned())
    };
    Ok(text.lines().filter_map(|line| library(line).or_else(|| loader(line))).collect())
}

/// A library of the compiler or of its C library.
fn library(arch: Arch, name: &std::ffi::OsStr) -> anyhow::Result<PathBuf> {
    let option = format!("-print-file-name={}", name.to_string_lossy());
    let path = repo::output_of(Command::new(arch.compiler()).arg(option))?;
    let path = PathBuf::from(path.trim());
    anyhow::ensure!(path.is_absolute(), "the compiler does not know {}", name.display());
    Ok(path)
}
