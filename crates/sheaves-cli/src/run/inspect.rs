//! Whether an object can be preloaded into a program, and what the program then uses.
//!
//! Where `LD_PRELOAD` does not apply the dynamic linker ignores it silently. Each of these cases is
//! refused here, before the start, with a line that says why.

use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::{getgid, getuid};

use super::allocators::{self, Warning};
use super::libraries;
use crate::elf::{Facts, MAGIC, Target};
use crate::preload::{LIST_VARIABLE, Preload};
use crate::refusal::Refusal;

/// How much of a file the kernel reads to decide how to execute it.
const START_BYTES: usize = 256;
/// The kernel follows a longer chain of scripts no further.
const SCRIPT_DEPTH_MAX: usize = 5;

/// The file that the kernel will execute in the end.
#[derive(Debug)]
pub(crate) struct Image {
    /// The program itself, or the interpreter at the end of a chain of scripts.
    pub(crate) path: PathBuf,
    /// A script without `#!`: shells run it by `/bin/sh`; the kernel refuses it.
    pub(crate) through_shell: bool,
    /// What may go wrong.
    pub(crate) warnings: Vec<Warning>,
}

/// Follows scripts to their interpreter and refuses what cannot run on Sheaves.
pub(crate) fn inspect(program: &Path, preload: &Preload) -> Result<Image, Refusal> {
    let mut path = program.to_owned();
    let mut through_shell = false;
    for _ in 0..=SCRIPT_DEPTH_MAX {
        let start = match read_start(&path) {
            Ok(start) => start,
            // An unreadable file may be executable.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                refuse_privileged(&path)?;
                let found = format!("{} cannot be read, so its malloc is unknown", path.display());
                let advice = "`sheaves run --verbose` prints a line if it runs on Sheaves";
                return Ok(Image {
                    path,
                    through_shell,
                    warnings: vec![Warning { found, advice }],
                });
            }
            Err(error) => return Err(interpreter_refusal(program, &path, &error)),
        };
        if start.starts_with(MAGIC) {
            refuse_privileged(&path)?;
            let facts = inspect_elf(&path, &start, preload.target)?;
            let list = env::var_os(LIST_VARIABLE).unwrap_or_default();
            let objects = libraries::of(&path, facts, preload.target, &list);
            let warnings = allocators::examine(&objects, &preload.path)?;
            return Ok(Image { path, through_shell, warnings });
        }
        path = match interpreter(&start) {
            Some(interpreter) => interpreter,
            None if first_line(&start).contains(&0) => {
                let line = format!("{}: not a program this machine can run", path.display());
                return Err(Refusal::not_executable(line));
            }
            None if path == program => {
                through_shell = true;
                PathBuf::from("/bin/sh")
            }
            None => {
                let line = format!("{}: an interpreter must be a program", path.display());
                return Err(Refusal::not_executable(line));
            }
        };
    }
    let line = format!("{}: too many levels of script interpreters", program.display());
    Err(Refusal::not_executable(line))
}

/// Refuses an ELF file that is damaged, static, linked to musl, or for another machine.
fn inspect_elf(path: &Path, start: &[u8], ours: Target) -> Result<Facts, Refusal> {
    let name = path.display();
    match Target::of_start(start) {
        Some(theirs) if theirs == ours => {}
        theirs => {
            let theirs = theirs.map_or("broken".to_owned(), |theirs| theirs.to_string());
            return Err(Refusal::not_executable(format!(
                "{name} is a {theirs} program; the preload object is {ours}"
            )));
        }
    }
    let facts = Facts::read_program(path).map_err(|problem| {
        Refusal::not_executable(format!("{name}: damaged ELF file: {problem}"))
    })?;
    let Some(interpreter) = facts.interpreter.as_ref().filter(|_| facts.dynamic) else {
        return Err(Refusal::not_executable(format!(
            "{name} is statically linked, and ignores preloaded objects: link it to glibc \
             dynamically, or build it with the crate sheaves as its global allocator"
        )));
    };
    if Path::new(interpreter)
        .file_name()
        .is_some_and(|file| file.as_bytes().starts_with(b"ld-musl"))
    {
        return Err(Refusal::not_executable(format!(
            "{name} is linked to musl; link it to glibc to run it on Sheaves"
        )));
    }
    Ok(facts)
}

/// Refuses a program that the kernel would start in secure-execution mode, where the dynamic linker
/// ignores `LD_PRELOAD`: setuid, setgid, or file capabilities.
fn refuse_privileged(path: &Path) -> Result<(), Refusal> {
    let metadata = path
        .metadata()
        .map_err(|error| Refusal::not_executable(format!("{}: {error}", path.display())))?;
    let (mode, uid, gid) = (metadata.mode(), getuid(), getgid());
    // Without execute permission for the group, the setgid bit means mandatory locking.
    let setgid = mode & 0o2010 == 0o2010 && metadata.gid() != gid.as_raw();
    let reason = if mode & 0o4000 != 0 && metadata.uid() != uid.as_raw() {
        "is setuid"
    } else if setgid {
        "is setgid"
    } else if !uid.is_root() && has_capabilities(path) {
        "has file capabilities"
    } else {
        return Ok(());
    };
    Err(Refusal::not_executable(format!(
        "{} {reason}; such programs ignore preloaded objects: run it as its owner",
        path.display()
    )))
}

fn has_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    getxattr(path, "security.capability", &mut value[..]).is_ok()
}

fn read_start(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START_BYTES);
    File::open(path)?.take(START_BYTES as u64).read_to_end(&mut start)?;
    Ok(start)
}

fn first_line(start: &[u8]) -> &[u8] {
    start.split(|byte| *byte == b'\n').next().unwrap_or_default()
}

/// The interpreter in a `#!` line.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = first_line(start).strip_prefix(b"#!")?.trim_ascii_start();
    let word = line.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | 0)).next()?;
    (!word.is_empty()).then(|| PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

/// A script whose interpreter is missing is "not found" to every shell.
fn interpreter_refusal(program: &Path, path: &Path, error: &std::io::Error) -> Refusal {
    let line = format!("{}: interpreter {}: {error}", program.display(), path.display());
    if error.kind() == ErrorKind::NotFound {
        Refusal::not_found(line)
    } else {
        Refusal::not_executable(line)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/run_inspect.rs"]
mod tests;
