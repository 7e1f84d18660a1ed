//! The libraries that the dynamic linker will load with a program, found as it finds them.
//!
//! The linker itself could be asked (`ld.so --list`), but only of files that one trusts. Left out
//! are `$LIB` and `$PLATFORM` in paths, and variants of a library for a newer processor, which
//! define the same functions. A library that is not found is left to the linker, which says so.

use alloc::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::elf::{Facts, Target};

/// More objects than any program has.
const OBJECTS_MAX: usize = 4096;
const CACHE: &str = "/etc/ld.so.cache";
/// Where libraries are that the cache does not know; `*` stands for the processor's name.
const FOLDERS: [&str; 6] =
    ["/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// A program or library that will be loaded.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its file.
    pub(crate) path: PathBuf,
    /// What `$ORIGIN` stands for in it.
    origin: PathBuf,
    /// What that says.
    pub(crate) facts: Facts,
    /// Device and number of the file: it may have several names.
    id: (u64, u64),
    /// The place in the list of the object that asked for it first; the program's is its own.
    loader: usize,
}

/// The program, what `LD_PRELOAD` names, and all that these need, in the order of the search for
/// symbols.
pub(crate) fn of(program: &Path, facts: Facts, target: Target, preloaded: &OsStr) -> Vec<Object> {
    let search = Search {
        path: folders(&env::var_os("LD_LIBRARY_PATH").unwrap_or_default(), b":;", None),
        cache: fs::read(CACHE).map(|bytes| cached(&bytes)).unwrap_or_default(),
        target,
    };
    search.all(program, facts, preloaded)
}

struct Search {
    /// Folders of `LD_LIBRARY_PATH`.
    path: Vec<PathBuf>,
    /// Files by the name of the library.
    cache: BTreeMap<Vec<u8>, Vec<PathBuf>>,
    target: Target,
}

impl Search {
    fn all(&self, program: &Path, facts: Facts, preloaded: &OsStr) -> Vec<Object> {
        let id = id(program).unwrap_or_default();
        // The folder of the file; that of a library is the folder of its name.
        let file = program.canonicalize().unwrap_or_default();
        let (path, origin) = (program.to_owned(), folder_of(&file));
        let mut objects = vec![Object { path, origin, facts, id, loader: 0 }];
        let named = preloaded.as_bytes().split(|byte| b": ".contains(byte));
        for name in named.filter(|name| !name.is_empty()) {
            self.add(&mut objects, 0, OsStr::from_bytes(name));
        }
        let mut at = 0;
        while at < objects.len() && objects.len() < OBJECTS_MAX {
            for name in objects[at].facts.needed.clone() {
                self.add(&mut objects, at, &name);
            }
            at += 1;
        }
        objects
    }

    /// Adds a library that `loader` asks for, unless it is there.
    fn add(&self, objects: &mut Vec<Object>, loader: usize, name: &OsStr) {
        let found = self.candidates(objects, loader, name).into_iter().find(|path| self.fits(path));
        if let Some(path) = found
            && let Some(id) = id(&path)
            && objects.iter().all(|object| object.id != id)
            && let Ok(facts) = Facts::read(&path)
        {
            let origin = folder_of(&std::path::absolute(&path).unwrap_or_default());
            objects.push(Object { path, origin, facts, id, loader });
        }
    }

    /// Where a library may be, in the order of `ld.so(8)`.
    fn candidates(&self, objects: &[Object], loader: usize, name: &OsStr) -> Vec<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return vec![PathBuf::from(name)];
        }
        let mut places = Vec::new();
        if objects[loader].facts.runpath.is_none() {
            let mut at = loader;
            loop {
                let Object { origin, facts, loader, .. } = &objects[at];
                let rpath = facts.rpath.as_deref().filter(|_| facts.runpath.is_none());
                places.extend(folders(rpath.unwrap_or_default(), b":", Some(origin)));
                if *loader == at {
                    break;
                }
                at = *loader;
            }
        }
        places.extend(self.path.iter().cloned());
        let runpath = objects[loader].facts.runpath.clone().unwrap_or_default();
        places.extend(folders(&runpath, b":", Some(&objects[loader].origin)));
        let mut files: Vec<_> = places.into_iter().map(|folder| folder.join(name)).collect();
        files.extend(self.cache.get(name.as_bytes()).into_iter().flatten().cloned());
        let folders = FOLDERS.iter().map(|folder| folder.replace('*', env::consts::ARCH));
        files.extend(folders.map(|folder| Path::new(&folder).join(name)));
        files
    }

    /// A file of another kind of machine is passed over.
    fn fits(&self, path: &Path) -> bool {
        let mut start = [0; 64];
        let count = File::open(path).and_then(|mut file| file.read(&mut start));
        count.is_ok_and(|count| Target::of_start(&start[..count]) == Some(self.target))
    }
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}

fn id(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// The folders in a list; `origin` is that of the object that has the list.
fn folders(list: &OsStr, separators: &[u8], origin: Option<&Path>) -> Vec<PathBuf> {
    let words = list.as_bytes().split(|byte| separators.contains(byte));
    let folder = |word: &[u8]| {
        for token in [&b"$ORIGIN"[..], b"${ORIGIN}"] {
            if let Some(rest) = word.strip_prefix(token) {
                let mut path = OsString::from(origin?);
                path.push(OsStr::from_bytes(rest));
                return Some(path.into());
            }
        }
        // An empty word is the current folder, in a list that is not empty.
        Some(PathBuf::from(if word.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(word) }))
    };
    if list.is_empty() { Vec::new() } else { words.filter_map(folder).collect() }
}

/// What `ldconfig(8)` knows: the files of each library. The form is that of glibc 2.2 and later: a
/// header of 48 bytes, then an entry of 24 bytes for each file, with the places of two strings.
fn cached(bytes: &[u8]) -> BTreeMap<Vec<u8>, Vec<PathBuf>> {
    const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
    const HEADER: usize = 48;
    const ENTRY: usize = 24;
    let mut files: BTreeMap<Vec<u8>, Vec<PathBuf>> = BTreeMap::new();
    // Some systems write the older form before it.
    let Some(start) = bytes.windows(MAGIC.len()).position(|at| at == MAGIC) else { return files };
    let cache = &bytes[start..];
    let number = |at: usize| {
        let bytes = cache.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let string = |at: usize| cache.get(number(at)?..)?.split(|byte| *byte == 0).next();
    let count = number(MAGIC.len()).unwrap_or(0).min(cache.len() / ENTRY);
    for entry in (0..count).map(|index| HEADER + index * ENTRY) {
        if let (Some(name), Some(path)) = (string(entry + 4), string(entry + 8)) {
            files.entry(name.to_owned()).or_default().push(OsStr::from_bytes(path).into());
        }
    }
    files
}

#[cfg(test)]
#[path = "../../tests/unit/run_libraries.rs"]
mod tests;
