//! Finds a program as a shell would, with the exit statuses 127 and 126 of a shell.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::refusal::Refusal;

/// Searched when there is no `PATH`, as in `execvp(3)`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that `program` names: itself if it has a slash, else the first match in `PATH`.
pub(crate) fn resolve(program: &OsStr) -> Result<PathBuf, Refusal> {
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return check(&path).map(|()| path);
    }
    let list = env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    search(program, &list)
}

/// Searches `list`. A file that cannot be executed is the error if nothing else is found.
fn search(program: &OsStr, list: &OsStr) -> Result<PathBuf, Refusal> {
    let not_found =
        || Refusal::not_found(format!("{}: not found in PATH", Path::new(program).display()));
    let mut reason = None;
    if program.is_empty() {
        return Err(not_found());
    }
    for directory in env::split_paths(list) {
        // An empty entry means the current directory; the added `./` prevents a second search.
        let directory =
            if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        let candidate = directory.join(program);
        if !candidate.is_file() {
            continue;
        }
        match check(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(refusal) => reason = reason.or(Some(refusal)),
        }
    }
    Err(reason.unwrap_or_else(not_found))
}

/// Whether `path` can be executed, and if not, why.
fn check(path: &Path) -> Result<(), Refusal> {
    let name = path.display();
    match path.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Refusal::not_found(format!("{name}: not found")))
        }
        Err(error) => Err(Refusal::not_executable(format!("{name}: {error}"))),
        Ok(metadata) if metadata.is_dir() => {
            Err(Refusal::not_executable(format!("{name}: is a directory")))
        }
        Ok(metadata) if !metadata.is_file() => {
            Err(Refusal::not_executable(format!("{name}: is not a regular file")))
        }
        Ok(_) => accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|_| Refusal::not_executable(format!("{name}: not executable (chmod +x)"))),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/run_resolve.rs"]
mod tests;
