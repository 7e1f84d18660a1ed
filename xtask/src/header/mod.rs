//! `cargo xtask header`: makes the C header of the C API out of its Rust source, by cbindgen,
//! its manual pages out of the header, the headers of liburcu's flavours out of their template, all
//! descriptions of options out of their table, and the table of rooms out of the tree.
//!
//! All of them are committed, so that users do not need this; `--check` and the test
//! `tests/header.rs` compare. What Rust cannot express is in `crates/sheaves-capi/header/`.

mod flavors;
mod pages;

use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::options::{self, Opt};
use crate::repo::{self, CAPI, HEADER};
use crate::rooms;

/// A list of modules, which cbindgen must not read; what is in folders is for other headers.
const FACE: &str = "lib.rs";

/// Writes the headers and pages; with `check` fails if one differs from the committed file.
pub fn run(root: &Path, check: bool) -> anyhow::Result<()> {
    let options = options::read(root)?;
    let mut made = flavors::make(root)?;
    let header = make(root, &options)?;
    made.extend(pages::make(root, &header, &options)?);
    made.extend(options::make(root, &options)?);
    made.push((HEADER.to_owned(), header));
    let document = rooms::document(&repo::text_files(root)?).context("no marks for rooms")?;
    made.push((rooms::DOCUMENT.to_owned(), document));
    for (name, text) in made {
        let path = root.join(&name);
        if check {
            let committed = std::fs::read_to_string(&path).with_context(|| name.clone())?;
            anyhow::ensure!(committed == text, "{name} is stale: run `cargo xtask header`");
        } else {
            std::fs::write(&path, text).with_context(|| name.clone())?;
        }
    }
    Ok(())
}

/// The text of `sheaves.h` for the current source.
fn make(root: &Path, options: &[Opt]) -> anyhow::Result<String> {
    let folder = root.join(CAPI);
    let read = |name: &str| {
        std::fs::read_to_string(folder.join(name)).with_context(|| format!("{CAPI}/{name}"))
    };
    let mut config = cbindgen::Config::from_file(folder.join("cbindgen.toml"))
        .map_err(|error| anyhow!("cbindgen.toml: {error}"))?;
    let comment = options::comment(options);
    config.header = config.header.map(|text| text.replace(" * @OPTIONS@\n", &comment));
    config.after_includes = Some(numbered(&read("header/begin.h")?, &version(root)?)?);
    config.trailer = Some(read("header/inline.h")?);
    let mut builder = cbindgen::Builder::new().with_config(config);
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(folder.join("src"))? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if name.ends_with(".rs") && name != FACE {
            sources.push(folder.join("src").join(name));
        }
    }
    sources.sort();
    for source in sources {
        builder = builder.with_src(source);
    }
    let bindings = builder.generate().context("cbindgen")?;
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    let text = String::from_utf8(bytes).context("the header")?;
    Ok(tidied(&text))
}

/// The version of the workspace.
pub(crate) fn version(root: &Path) -> anyhow::Result<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).context("Cargo.toml")?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.strip_suffix('"'));
    version.map(str::to_owned).context("the workspace has no version")
}

/// Inserts the version.
fn numbered(text: &str, version: &str) -> anyhow::Result<String> {
    let mut parts = version.split('.');
    let mut part = || parts.next().context("a version has three parts");
    let text = text.replace("@MAJOR@", part()?);
    let text = text.replace("@MINOR@", part()?);
    Ok(text.replace("@PATCH@", part()?))
}

/// Removes trailing white space and repeated empty lines; rewords `# Safety` for C.
fn tidied(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut was_empty = true;
    for line in text.lines() {
        let line = line.trim_end().replace("# Safety", "What the caller promises:");
        if !(line.is_empty() && was_empty) {
            tidied.push_str(&line);
            tidied.push('\n');
        }
        was_empty = line.is_empty();
    }
    while tidied.ends_with("\n\n") {
        tidied.pop();
    }
    tidied
}
