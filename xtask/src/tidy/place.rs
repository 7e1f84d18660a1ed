//! Which rules apply where: derived from the path of a file, and from the files that declare it.
//!
//! A crate under `crates/` is a library crate unless it is listed here as a tool, so that a new
//! crate starts under the strict rules.

use super::rust::RustFile;

/// Crates under `crates/` that are programs for people or serve those, not code under malloc.
const TOOL_CRATES: [&str; 4] =
    ["sheaves-bench", "sheaves-cli", "sheaves-history", "sheaves-torture"];

/// The crate under `crates/` that the file belongs to.
pub(crate) fn crate_of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split_once('/').map(|(name, _)| name)
}

/// True when the library rules apply to `name`, a crate under `crates/`.
pub(crate) fn is_library_crate(name: &str) -> bool {
    !TOOL_CRATES.contains(&name)
}

/// True when the path is that of library source; tests and examples are not.
pub(crate) fn is_library_code(path: &str) -> bool {
    crate_of(path).is_some_and(is_library_crate) && path.split('/').nth(2) == Some("src")
}

/// True when the file is in a folder of tests, where longer files are allowed.
pub(crate) fn is_in_tests_folder(path: &str) -> bool {
    path.split('/').rev().skip(1).any(|part| part == "tests")
}

/// Files that only test builds compile, because an item like `#[cfg(test)] mod x;` declares them.
#[derive(Debug, Default)]
pub(crate) struct TestModules {
    /// Paths of modules without the ending: `crates/a/src/b` stands for `b.rs` and for `b/**`.
    stems: Vec<String>,
}

impl TestModules {
    pub(crate) fn holds(&self, path: &str) -> bool {
        self.stems.iter().any(|stem| {
            path.strip_prefix(stem.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    }
}

/// Collects the test modules that `sources` declare.
pub(crate) fn test_modules(sources: &[RustFile]) -> TestModules {
    let mut modules = TestModules::default();
    for source in sources {
        let folder = folder_of_children(&source.path);
        for name in source.test_module_names() {
            modules.stems.push(format!("{folder}/{name}"));
        }
    }
    modules
}

/// Folder in which the child modules of the file live.
fn folder_of_children(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder.to_owned(),
        _ => stem.to_owned(),
    }
}
