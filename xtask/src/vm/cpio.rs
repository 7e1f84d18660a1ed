//! Archives in the format that the kernel unpacks as its first file system: cpio, "newc".

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const IS_FOLDER: u32 = 0o040_000;
const IS_FILE: u32 = 0o100_000;
const IS_LINK: u32 = 0o120_000;
/// The name that ends an archive.
const END: &[u8] = b"TRAILER!!!";

/// An archive that is being written.
pub(super) struct Archive<W> {
    to: W,
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> Archive<W> {
        Archive { to, entries: 0 }
    }

    /// Adds what is in a folder, with names relative to `root`.
    pub(super) fn add_folder(&mut self, root: &Path, folder: &Path) -> io::Result<()> {
        let mut paths = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        paths.sort();
        for path in paths {
            let name = path.strip_prefix(root).unwrap_or(&path).as_os_str().as_bytes();
            let about = fs::symlink_metadata(&path)?;
            let mode = about.permissions().mode() & 0o7777;
            if about.is_dir() {
                self.add(name, IS_FOLDER | mode, &[])?;
                self.add_folder(root, &path)?;
            } else if about.is_symlink() {
                self.add(name, IS_LINK | mode, fs::read_link(&path)?.as_os_str().as_bytes())?;
            } else if about.is_file() {
                self.add(name, IS_FILE | mode, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// Adds a file with these contents, which may be executed.
    pub(super) fn add_program(&mut self, name: &str, contents: &[u8]) -> io::Result<()> {
        self.add(name.as_bytes(), IS_FILE | 0o755, contents)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.add(END, 0, &[])?;
        self.to.flush()
    }

    fn add(&mut self, name: &[u8], mode: u32, contents: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let bytes = u32::try_from(contents.len()).map_err(io::Error::other)?;
        let name_bytes = name.len() as u32 + 1;
        // Number, mode, owner, group, links, time, size, the device's and the file's two numbers,
        // the name's size, no checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name_bytes, 0];
        write!(self.to, "070701")?;
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        const HEADER_BYTES: usize = 6 + 13 * 8;
        self.to.write_all(name)?;
        self.pad(1 + padding(HEADER_BYTES + name.len() + 1))?;
        self.to.write_all(contents)?;
        self.pad(padding(contents.len()))
    }

    fn pad(&mut self, bytes: usize) -> io::Result<()> {
        self.to.write_all(&[0; 4][..bytes])
    }
}

/// Bytes up to the next multiple of four.
fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(4) - bytes
}

#[cfg(test)]
#[path = "../../tests/unit/vm_cpio.rs"]
mod tests;
