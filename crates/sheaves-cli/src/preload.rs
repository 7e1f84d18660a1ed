//! Finds the preload object and builds the `LD_PRELOAD` list that loads it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::elf::{Facts, Target};

/// The file name of the object, as built and as installed.
const FILE_NAME: &str = "libsheaves_preload.so";
/// Names the object if it is not installed with the command.
const PATH_VARIABLE: &str = "SHEAVES_PRELOAD";
/// The dynamic linker's list of objects.
pub(crate) const LIST_VARIABLE: &str = "LD_PRELOAD";

/// A preload object that exists and can be named in `LD_PRELOAD`.
#[derive(Debug)]
pub(crate) struct Preload {
    /// Absolute, because the program may change its directory before it starts others.
    pub(crate) path: PathBuf,
    /// The machine it is for; programs must be of the same kind.
    pub(crate) target: Target,
}

impl Preload {
    /// Finds the object: `option`, then the environment variable, then beside the command.
    pub(crate) fn find(option: Option<&Path>) -> Result<Self, String> {
        if let Some(path) = option {
            return Self::open(path);
        }
        if let Some(path) = env::var_os(PATH_VARIABLE).filter(|value| !value.is_empty()) {
            return Self::open(Path::new(&path))
                .map_err(|line| format!("{line} (named by {PATH_VARIABLE})"));
        }
        let command = env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(|error| format!("cannot find the path of this command: {error}"))?;
        let directory = command.parent().unwrap_or(Path::new("/"));
        for near in ["", "../lib", "../lib/sheaves"] {
            let candidate = directory.join(near).join(FILE_NAME);
            if candidate.is_file() {
                return Self::open(&candidate);
            }
        }
        Err(format!(
            "cannot find {FILE_NAME} in {0}, {0}/../lib or {0}/../lib/sheaves; build it or name \
             it with --preload or {PATH_VARIABLE}",
            directory.display()
        ))
    }

    fn open(path: &Path) -> Result<Self, String> {
        let named = |problem: &str| format!("preload object {}: {problem}", path.display());
        let path = path.canonicalize().map_err(|error| named(&error.to_string()))?;
        let mut start = [0; 64];
        let target = File::open(&path)
            .and_then(|mut file| file.read(&mut start))
            .map_err(|error| named(&error.to_string()))
            .map(|count| Target::of_start(&start[..count]))?
            .ok_or_else(|| named("not an ELF file"))?;
        let facts = Facts::read(&path).map_err(|problem| named(&problem))?;
        if !facts.exports.malloc {
            return Err(named("it does not define malloc: name another"));
        }
        // The dynamic linker splits `LD_PRELOAD` at both and has no way to quote them.
        if path.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte)) {
            return Err(named("LD_PRELOAD cannot hold a path with a blank or a colon; move it"));
        }
        Ok(Self { path, target })
    }

    /// The new value of `LD_PRELOAD`: Sheaves first, so that its malloc wins, then the existing
    /// list, so that other preloaded objects keep working.
    pub(crate) fn list(&self, existing: Option<&OsStr>) -> OsString {
        let mut list = self.path.clone().into_os_string();
        if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
            list.push(":");
            list.push(existing);
        }
        list
    }
}

#[cfg(test)]
#[path = "../tests/unit/preload.rs"]
pub(crate) mod tests;
