//! The manual pages of the C API: what the header says about each function, in a frame that is
//! written by hand.
//!
//! A frame `crates/sheaves-capi/man/NAME.3.in` is mdoc with lines of its own: `@NAMES@`,
//! `@SYNOPSIS@`, `@FUNCTIONS@`, `@TYPES@`, `@OPTIONS of@` for the [options](crate::options) of one
//! kind, and `@EXAMPLE file@` for a program of `crates/sheaves-capi/examples/`. Which page a name
//! belongs to is in [`PAGES`].

use core::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::options;

/// Frames and pages.
const FOLDER: &str = "crates/sheaves-capi/man";
const EXAMPLES: &str = "crates/sheaves-capi/examples";

/// Each page, and how the names on it begin; the last takes what is left.
const PAGES: [(&str, &[&str]); 4] = [
    ("sheaves_cache", &["sheaves_cache"]),
    (
        "sheaves_percpu",
        &["sheaves_percpu", "sheaves_counter", "sheaves_slot_count", "sheaves_current_slot"],
    ),
    (
        "sheaves_rcu",
        &["sheaves_rcu", "sheaves_srcu", "sheaves_call", "sheaves_free_rcu", "sheaves_head"],
    ),
    ("sheaves", &[]),
];

/// The files of the pages for this header, and their texts.
pub(super) fn make(root: &Path, header: &str) -> anyhow::Result<Vec<(String, String)>> {
    let items = items_of(header);
    let options = options::read(root)?;
    let mut pages = Vec::new();
    for (index, (name, _)) in PAGES.iter().enumerate() {
        let frame = root.join(FOLDER).join(format!("{name}.3.in"));
        let frame = std::fs::read_to_string(&frame).context(frame.display().to_string())?;
        let items: Vec<_> = items.iter().filter(|item| page_of(&item.names[0]) == index).collect();
        let mut page = ".\\\" Made by `cargo xtask header`: not to be edited.\n".to_owned();
        for line in frame.lines() {
            match line {
                "@NAMES@" => page += &names(name, &items),
                "@SYNOPSIS@" => page += &synopsis(&items)?,
                "@FUNCTIONS@" => page += &functions(&items),
                "@TYPES@" => page += &types(&items),
                "@OPTIONS memory@" => page += &options::mdoc(&options, options::MEMORY),
                "@OPTIONS rcu@" => page += &options::mdoc(&options, options::RCU),
                _ => match line.strip_prefix("@EXAMPLE ").and_then(|rest| rest.strip_suffix('@')) {
                    Some(file) => {
                        let path = root.join(EXAMPLES).join(file);
                        let program = std::fs::read_to_string(&path).context(file.to_owned())?;
                        page += &literal(&program);
                    }
                    None => page = page + line + "\n",
                },
            }
        }
        pages.push((format!("{FOLDER}/{name}.3"), page));
    }
    Ok(pages)
}

fn page_of(name: &str) -> usize {
    let name = name.to_lowercase();
    let begins = |begin: &&str| {
        name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let is_on = |page: &(&str, &[&str])| page.1.iter().any(begins);
    PAGES.iter().position(is_on).unwrap_or(PAGES.len() - 1)
}

/// Something that the header declares and describes.
#[derive(Debug, Default)]
struct Item {
    kind: Kind,
    /// More than one for constants that follow each other.
    names: Vec<String>,
    /// Lines of the comment; an empty one ends a paragraph.
    words: Vec<String>,
    /// The declaration: of a function in one line, of a type as it stands there.
    code: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Function,
    Type,
    Constant,
}

/// Everything in the header that has a comment.
fn items_of(header: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut continues = false;
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("//") {
            words.push(text.trim().to_owned());
        } else if line.starts_with("/*") {
            words.clear();
            let mut line = Some(line);
            while let Some(part) = line {
                words.push(part.trim_start_matches(['/', '*', ' ']).trim_end_matches(" */").into());
                line = if part.ends_with("*/") { None } else { lines.next() };
            }
        } else if let Some(rest) = line.strip_prefix("#define SHEAVES_") {
            let name = rest.split(' ').next().unwrap_or(rest);
            let names = vec![format!("SHEAVES_{name}")];
            let words = core::mem::take(&mut words);
            match items.last_mut() {
                _ if !words.is_empty() => {
                    items.push(Item { kind: Kind::Constant, names, words, code: String::new() });
                    continues = true;
                }
                Some(item) if continues => item.names.extend(names),
                _ => {}
            }
        } else if line.is_empty() || line.starts_with('#') || line.starts_with('}') {
            words.clear();
            continues = false;
        } else {
            let mut code = line.to_owned();
            while !is_complete(&code) {
                let Some(line) = lines.next() else { break };
                code = code + "\n" + line;
            }
            items.extend(declared(code, core::mem::take(&mut words)));
        }
    }
    items
}

/// Is a declaration at its end?
fn is_complete(code: &str) -> bool {
    let is_open = code.matches('{').count() > code.matches('}').count();
    code.ends_with("\"C\" {") || (!is_open && code.ends_with([';', '}']))
}

/// The item of a declaration, unless it is not for users.
fn declared(code: String, words: Vec<String>) -> Option<Item> {
    if words.is_empty() {
        return None;
    }
    if code.starts_with("typedef") {
        let name = match code.split_once("(*") {
            Some((_, rest)) => rest.split(')').next()?,
            None => code.trim_end_matches(';').rsplit([' ', '}', '*']).next()?,
        };
        return Some(Item { kind: Kind::Type, names: vec![name.to_owned()], words, code });
    }
    if !code.starts_with("SHEAVES_API") {
        return None;
    }
    let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let begin = code.split('(').next()?;
    let name = begin.rsplit([' ', '*', ')']).next()?.to_owned();
    Some(Item { kind: Kind::Function, names: vec![name], words, code })
}

/// Result and arguments of a function.
fn signature(item: &Item) -> anyhow::Result<(String, Vec<String>)> {
    let name = &item.names[0];
    let (before, after) = item.code.split_once(&format!("{name}(")).context(name.clone())?;
    let is_type = |word: &&str| !word.starts_with("SHEAVES_");
    let result = before.split(' ').filter(is_type).collect::<Vec<_>>().join(" ");
    let mut arguments = vec![String::new()];
    let mut depth = 0_usize;
    for letter in after.trim_end_matches(");").chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        arguments.last_mut().context("one")?.push(letter);
    }
    Ok((result.trim().to_owned(), arguments.iter().map(|one| one.trim().to_owned()).collect()))
}

fn names(page: &str, items: &[&Item]) -> String {
    let functions = items.iter().filter(|item| item.kind == Kind::Function);
    let names: Vec<_> = core::iter::once(page)
        .chain(functions.map(|item| item.names[0].as_str()))
        .map(|name| format!(".Nm {name}"))
        .collect();
    names.join(" ,\n") + "\n"
}

fn synopsis(items: &[&Item]) -> anyhow::Result<String> {
    let mut text = String::new();
    for item in items.iter().filter(|item| item.kind == Kind::Function) {
        let (result, arguments) = signature(item)?;
        let _ = writeln!(text, ".Ft \"{result}\"\n.Fo {}", item.names[0]);
        for argument in arguments {
            let _ = writeln!(text, ".Fa \"{argument}\"");
        }
        text += ".Fc\n";
    }
    Ok(text)
}

fn functions(items: &[&Item]) -> String {
    let mut text = ".Bl -tag -width Ds\n".to_owned();
    for item in items.iter().filter(|item| item.kind == Kind::Function) {
        let _ = writeln!(text, ".It Fn {}", item.names[0]);
        text += &prose(&item.words);
    }
    text + ".El\n"
}

fn types(items: &[&Item]) -> String {
    let mut text = ".Bl -tag -width Ds\n".to_owned();
    for item in items.iter().filter(|item| item.kind != Kind::Function) {
        if item.kind == Kind::Type {
            let _ = writeln!(text, ".It Vt {}", item.names[0]);
        } else {
            let _ = writeln!(text, ".It Dv {}", item.names.join(" , "));
        }
        text += &prose(&item.words);
        if item.code.contains('{') {
            text += &literal(&item.code);
        }
    }
    text + ".El\n"
}

/// Sentences on lines of their own, as mdoc wants them.
fn prose(words: &[String]) -> String {
    let mut text = String::new();
    for paragraph in words.split(|line| line.is_empty()) {
        if paragraph.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text += ".Pp\n";
        }
        for line in paragraph.join(" ").replace(". ", ".\n").lines() {
            text = text + &escaped(line) + "\n";
        }
    }
    text
}

fn literal(code: &str) -> String {
    let lines: Vec<_> = code.lines().map(escaped).collect();
    format!(".Bd -literal\n{}\n.Ed\n", lines.join("\n"))
}

/// Text that roff takes as it is.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e");
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_header_declares_is_found() {
        let header = "\
/* About a size.
 *
 * More. */
SHEAVES_API SHEAVES_MUST_USE SHEAVES_MALLOC void *sheaves_malloc(size_t size);
#define SHEAVES_WITHOUT 1

// One of two.
#define SHEAVES_ONE 1
#define SHEAVES_TWO 2

// A call.
typedef void (*sheaves_call)(struct sheaves_head *head);

// A pair.
typedef struct sheaves_pair {
    // First.
    int one;
} sheaves_pair;

// Not for users.
extern int sheaves_hidden;

// With a call.
SHEAVES_API
int sheaves_both(int one,
                 void (*call)(int, int));
";
        let items = items_of(header);
        let names: Vec<_> = items.iter().map(|item| item.names.join(" ")).collect();
        let wanted = [
            "sheaves_malloc",
            "SHEAVES_ONE SHEAVES_TWO",
            "sheaves_call",
            "sheaves_pair",
            "sheaves_both",
        ];
        assert_eq!(names, wanted);
        assert_eq!(items[0].words, ["About a size.", "", "More."]);
        assert_eq!(signature(&items[0]).unwrap(), ("void *".into(), vec!["size_t size".into()]));
        let arguments = vec!["int one".into(), "void (*call)(int, int)".into()];
        assert_eq!(signature(&items[4]).unwrap(), ("int".into(), arguments));
    }

    #[test]
    fn roff_takes_text_as_it_is() {
        assert_eq!(prose(&["A. B".into(), "".into(), ".c \\n".into()]), "A.\nB\n.Pp\n\\&.c \\en\n");
    }
}
