//! Whose `malloc` and `free` a program will use under the preload object.
//!
//! The dynamic linker searches the program first, then the preload object, then libraries. So only
//! the program's own `malloc` comes before that of Sheaves; that of a library is not used. Objects
//! that the program loads while it runs are not known.

use alloc::collections::BTreeSet;
use std::path::Path;

use super::libraries::Object;
use crate::elf::Names;
use crate::refusal::Refusal;

/// Functions that are named in a warning.
const NAMES_MAX: usize = 4;

/// What may go wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct Warning {
    /// What was found.
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: &'static str,
}

const BLOCKS_MAY_NOT_PASS: &str =
    "if it frees blocks of one by the other it ends: then start it without `sheaves run`";

/// Refuses a program that cannot run on Sheaves, and warns of allocators beside it. The first of
/// `objects` is the program; `preload` is the preload object.
pub(crate) fn examine(objects: &[Object], preload: &Path) -> Result<Vec<Warning>, Refusal> {
    let Some((program, libraries)) = objects.split_first() else { return Ok(Vec::new()) };
    for Object { path, facts, .. } in objects {
        let sanitizer = facts.contains.sanitizer.or(facts.exports.sanitizer);
        // Those without a `malloc`, such as UndefinedBehaviorSanitizer's, are no obstacle.
        if let Some(sanitizer) = sanitizer.filter(|_| facts.exports.malloc) {
            let library = match path == &program.path {
                true => String::new(),
                false => format!(" ({})", path.display()),
            };
            return Err(Refusal::not_executable(format!(
                "{} has {sanitizer}{library}, which needs its own malloc: start it without \
                 `sheaves run`, or build it without -fsanitize",
                program.path.display(),
            )));
        }
    }
    let mut warnings: Vec<_> = own(program).into_iter().collect();
    for library in libraries.iter().filter(|library| library.facts.exports.allocator.is_some()) {
        warnings.extend(beside(library, objects, preload));
    }
    Ok(warnings)
}

/// Warns of an allocator inside the program.
fn own(program: &Object) -> Option<Warning> {
    let (exports, contains) = (&program.facts.exports, &program.facts.contains);
    let path = program.path.display();
    let named = exports.allocator.or(contains.allocator);
    if exports.malloc || exports.free {
        let functions = match (exports.malloc, exports.free) {
            (true, true) => "malloc and free",
            (true, false) => "malloc, but takes free from Sheaves",
            _ => "free, but takes malloc from Sheaves",
        };
        let whose = named.map(|name| format!(" ({name})")).unwrap_or_default();
        return Some(Warning {
            found: format!("{path} does not run on Sheaves: it has its own {functions}{whose}"),
            advice: "link it to the malloc of libc",
        });
    }
    if contains.malloc || contains.free {
        let whose = named.unwrap_or("a malloc of its own");
        return Some(Warning {
            found: format!(
                "{path} has {whose} linked into it and uses that, while its libraries use Sheaves"
            ),
            advice: BLOCKS_MAY_NOT_PASS,
        });
    }
    named.map(|name| Warning {
        found: format!("{path} has {name} linked into it, while malloc and free are Sheaves'"),
        advice: BLOCKS_MAY_NOT_PASS,
    })
}

/// Warns of an allocator in a library, if some object uses functions that only this has.
fn beside(library: &Object, objects: &[Object], preload: &Path) -> Option<Warning> {
    let mut elsewhere = Names::read(preload).unwrap_or_default().defined;
    let mut used = BTreeSet::new();
    for object in objects.iter().filter(|object| object.path != library.path) {
        let names = Names::read(&object.path).unwrap_or_default();
        elsewhere.extend(names.defined);
        used.extend(names.undefined);
    }
    let own = Names::read(&library.path).unwrap_or_default().defined;
    let is_used = |name: &&Vec<u8>| used.contains(*name) && !elsewhere.contains(*name);
    let used = own.iter().filter(is_used);
    let names: Vec<_> = used.map(|name| String::from_utf8_lossy(name)).collect();
    if names.is_empty() {
        return None;
    }
    let more = if names.len() > NAMES_MAX { ", ..." } else { "" };
    Some(Warning {
        found: format!(
            "{} uses the heap of {} ({}{more}) beside that of Sheaves",
            objects[0].path.display(),
            library.path.display(),
            names[..names.len().min(NAMES_MAX)].join(", "),
        ),
        advice: BLOCKS_MAY_NOT_PASS,
    })
}
