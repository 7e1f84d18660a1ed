//! Rules about floors: the files of a crate use each other in one direction, and only the protocols
//! that models run know of the model checker.
//!
//! A file uses another if it names, in a `use` item or by a path, an item that the other defines.
//! Re-exports are followed to the file of the definition, and each file on the way counts as used,
//! too. A re-export alone is no use of what it names. Test code and calls of methods do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::place::TestModules;
use super::rust::{Import, RustFile, TokenKind};
use crate::finding::{Finding, Kind};

/// Re-exports that are followed before a path is given up.
const REEXPORTS_MAX: usize = 16;

pub(crate) fn check(sources: &[RustFile], tests: &TestModules, findings: &mut Vec<Finding>) {
    let mut crates: BTreeMap<&str, Vec<&RustFile>> = BTreeMap::new();
    for source in sources {
        if let Some((folder, _)) = source.path.split_once("/src/")
            && !tests.holds(&source.path)
        {
            crates.entry(folder).or_default().push(source);
        }
    }
    for sources in crates.values() {
        check_crate(&Modules::of(sources), sources, findings);
    }
}

fn check_crate(modules: &Modules<'_>, sources: &[&RustFile], findings: &mut Vec<Finding>) {
    let uses: BTreeMap<&str, BTreeMap<&str, usize>> =
        sources.iter().map(|source| (source.path.as_str(), uses_of(modules, source))).collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (*file, reached_from(&uses, file))).collect();
    let mut reported = BTreeSet::new();
    for file in uses.keys() {
        let circle: Vec<&str> = reached[file]
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|files| files.contains(file)))
            .collect();
        if circle.is_empty() || !reported.insert(circle.clone()) {
            continue;
        }
        let mut edges = Vec::new();
        for from in &circle {
            for (to, line) in uses[from].iter().filter(|(to, _)| circle.contains(to)) {
                edges.push(format!("{}:{line} -> {}", short(from), short(to)));
            }
        }
        let kind = Kind::Circle { files: circle.len(), edges: edges.join(", ") };
        findings.push(Finding::new(circle[0], 1, kind));
    }
}

/// Refuses `loom` in library code outside `protocol/`; `lib.rs` may leave out what loom cannot
/// build.
pub(crate) fn check_loom(source: &RustFile, findings: &mut Vec<Finding>) {
    let below = short(&source.path);
    if below == "lib.rs" || below.starts_with("protocol") {
        return;
    }
    let words = source.tokens.iter().filter(|token| token.kind == TokenKind::Word);
    for word in words.filter(|word| word.text == "loom") {
        findings.push(Finding::new(&source.path, word.line, Kind::ModelCheckerOutsideProtocol));
    }
}

/// The path of a file below the `src` of its crate.
fn short(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(_, below)| below)
}

/// The files that `file` uses, directly or through others.
fn reached_from<'a>(
    uses: &BTreeMap<&'a str, BTreeMap<&'a str, usize>>,
    file: &str,
) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![file];
    while let Some(file) = open.pop() {
        for used in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*used) {
                open.push(used);
            }
        }
    }
    reached
}

/// The modules of a crate, by their path from its root; the root is the empty path.
struct Modules<'source> {
    files: BTreeMap<Vec<String>, Module<'source>>,
}

struct Module<'source> {
    source: &'source RustFile,
    defined: BTreeSet<String>,
}

impl<'source> Modules<'source> {
    fn of(sources: &[&'source RustFile]) -> Self {
        let has_library = sources.iter().any(|source| short(&source.path) == "lib.rs");
        let files = sources
            .iter()
            .filter(|source| !has_library || short(&source.path) != "main.rs")
            .map(|source| {
                let defined = source.syntax.items.iter().filter_map(name_of).collect();
                (module_path(&source.path), Module { source, defined })
            })
            .collect();
        Self { files }
    }

    /// The file of the item that `path`, written in module `from`, names, behind those that
    /// re-export it; nothing for another crate's.
    fn files_of(
        &self,
        from: &[String],
        path: &[&str],
        reexports: usize,
    ) -> Option<Vec<&'source str>> {
        if reexports > REEXPORTS_MAX {
            return None;
        }
        let (&first, rest) = path.split_first()?;
        match first {
            "crate" => self.files_below(&[], rest, reexports),
            "self" => self.files_below(from, rest, reexports),
            "super" => self.files_of(from.split_last()?.1, &prefixed("self", rest), reexports),
            _ => self.files_below(from, path, reexports),
        }
    }

    fn files_below(
        &self,
        at: &[String],
        path: &[&str],
        reexports: usize,
    ) -> Option<Vec<&'source str>> {
        let module = self.files.get(at)?;
        // The module itself, not something in it.
        let (&name, rest) = path.split_first()?;
        if name == "super" {
            return self.files_of(at, path, reexports);
        }
        let child: Vec<String> = at.iter().cloned().chain([name.to_owned()]).collect();
        if self.files.contains_key(&child) {
            return self.files_below(&child, rest, reexports);
        }
        if module.defined.contains(name) {
            return Some(vec![&module.source.path]);
        }
        let through = |mut files: Vec<&'source str>| {
            files.push(&module.source.path);
            files
        };
        let imports = &module.source.imports;
        if let Some(import) = imports.iter().find(|import| import.name == name) {
            let target: Vec<&str> =
                import.path.iter().map(String::as_str).chain(rest.iter().copied()).collect();
            return self.imported(at, &target, reexports).map(through);
        }
        imports.iter().filter(|import| import.name == "*").find_map(|import| {
            let (_, folder) = import.path.split_last()?;
            let target: Vec<&str> =
                folder.iter().map(String::as_str).chain(path.iter().copied()).collect();
            self.imported(at, &target, reexports).map(through)
        })
    }

    /// As [`Modules::files_of`], for the path of a `use` item, whose first part is no import.
    fn imported(
        &self,
        at: &[String],
        path: &[&str],
        reexports: usize,
    ) -> Option<Vec<&'source str>> {
        let first = *path.first()?;
        let child: Vec<String> = at.iter().cloned().chain([first.to_owned()]).collect();
        let is_local = matches!(first, "crate" | "self" | "super")
            || self.files.contains_key(&child)
            || self.files.get(at)?.defined.contains(first);
        if is_local { self.files_of(at, path, reexports + 1) } else { None }
    }
}

fn prefixed<'a>(first: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    core::iter::once(first).chain(rest.iter().copied()).collect()
}

/// The path of the module in the file: `src/a/mod.rs` and `src/a.rs` are `a`.
fn module_path(path: &str) -> Vec<String> {
    let stem = short(path).trim_end_matches(".rs");
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The name that an item defines in its module; none for `use`, `impl` and modules in other files.
fn name_of(item: &syn::Item) -> Option<String> {
    use syn::Item;
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Mod(item) if item.content.is_some() => &item.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The other files of the crate that `source` uses, with the first line that does.
fn uses_of<'source>(
    modules: &Modules<'source>,
    source: &RustFile,
) -> BTreeMap<&'source str, usize> {
    let from = module_path(&source.path);
    let mut uses = BTreeMap::new();
    let mut note = |files: Option<Vec<&'source str>>, line: usize| {
        if source.is_test_line(line) {
            return;
        }
        for file in files.into_iter().flatten().filter(|file| *file != source.path) {
            let first = uses.entry(file).or_insert(line);
            *first = line.min(*first);
        }
    };
    for import in &source.imports {
        if !import.public || is_used_here(source, import) {
            let path: Vec<&str> = import.path.iter().map(String::as_str).collect();
            note(modules.imported(&from, &path, 0), import.line);
        }
    }
    for (path, line, in_macro) in paths(source) {
        let mut files = modules.files_of(&from, &path, 0);
        // A macro reaches what it names by the face of the crate, wherever it is expanded.
        if in_macro && let Some(files) = &mut files {
            files.truncate(1);
        }
        note(files, line);
    }
    uses
}

/// True when the file not only re-exports the name.
fn is_used_here(source: &RustFile, import: &Import) -> bool {
    source.tokens.iter().enumerate().any(|(index, token)| {
        token.kind == TokenKind::Word
            && token.text == import.name
            && !source.is_test_line(token.line)
            && source.text_at(index.checked_sub(1)) != "::"
            && source.text_at(index.checked_sub(1)) != "."
            && !source.is_in_use_item(index)
    })
}

/// The paths of at least two parts outside `use` items, with their lines; true for those that begin
/// with `$crate`.
fn paths(source: &RustFile) -> Vec<(Vec<&str>, usize, bool)> {
    let mut paths = Vec::new();
    for (index, token) in source.tokens.iter().enumerate() {
        if token.kind != TokenKind::Word
            || source.text_at(index.checked_sub(1)) == "::"
            || source.text_at(Some(index + 1)) != "::"
            || source.is_in_use_item(index)
        {
            continue;
        }
        let mut path = vec![token.text.as_str()];
        let mut at = index;
        while source.text_at(Some(at + 1)) == "::"
            && source.tokens.get(at + 2).is_some_and(|next| next.kind == TokenKind::Word)
        {
            at += 2;
            path.push(source.tokens[at].text.as_str());
        }
        paths.push((path, token.line, source.text_at(index.checked_sub(1)) == "$"));
    }
    paths
}
