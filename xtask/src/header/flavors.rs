//! The headers of liburcu's flavours. They differ by names, so one template serves for all.
//!
//! In `crates/sheaves-capi/header/urcu-flavor.h`, `@name@`, `@NAME@` and `@what@` stand for what
//! the flavour is. A line that begins with `@only qsbr@` is for that one, with `@not qsbr@` for the
//! others.

use std::path::Path;

use anyhow::Context as _;

const TEMPLATE: &str = "crates/sheaves-capi/header/urcu-flavor.h";
const FOLDER: &str = "crates/sheaves-capi/include/sheaves-urcu/urcu";

/// Each flavour, and what tells it from the others.
const FLAVORS: [(&str, &str); 5] = [
    ("memb", "of <urcu.h>"),
    ("mb", "with fences"),
    ("signal", "with signals, which are gone from newer versions"),
    ("qsbr", "with quiescent states"),
    ("bp", "without registration"),
];

/// Paths in the repository, and what the files are to hold.
pub(super) fn make(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let template = std::fs::read_to_string(root.join(TEMPLATE)).context(TEMPLATE)?;
    let flavor = |(name, what)| (format!("{FOLDER}/urcu-{name}.h"), flavor(&template, name, what));
    let mut made = FLAVORS.map(flavor).to_vec();
    made.push((format!("{FOLDER}/sheaves-unmap.h"), unmap(&template)?));
    Ok(made)
}

/// The header of one flavour.
fn flavor(template: &str, name: &str, what: &str) -> String {
    let lines = template.lines().filter_map(|line| line_for(line, name));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let text = text.replace("@name@", name).replace("@NAME@", &name.to_uppercase());
    text.replace("@what@", what)
}

/// A line without its condition, where the flavour meets it.
fn line_for<'line>(line: &'line str, name: &str) -> Option<&'line str> {
    let (rest, is_for_it) = if let Some(rest) = line.strip_prefix("@only ") {
        (rest, true)
    } else if let Some(rest) = line.strip_prefix("@not ") {
        (rest, false)
    } else {
        return Some(line);
    };
    let (condition, line) = rest.split_once("@ ")?;
    ((condition == name) == is_for_it).then_some(line)
}

/// The header that takes back what the last part of the template maps.
fn unmap(template: &str) -> anyhow::Result<String> {
    let (_, mapped) =
        template.split_once("<urcu/sheaves-unmap.h>\n").context("the template maps no names")?;
    let mut text = String::from(
        "/* Takes all names without a flavour back, so that another header can give them.\n \
         * Made by `cargo xtask header`: not to be edited. */\n\n",
    );
    for line in mapped.lines() {
        if let Some(name) = line.strip_prefix("#define ").and_then(|rest| rest.split(' ').next()) {
            text += &format!("#undef {name}\n");
        }
    }
    Ok(text)
}
