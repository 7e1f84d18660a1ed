//! The report of a rule: one place, one broken rule, one line of text.
//!
//! Every kind of finding is a variant, so that messages are defined in one place and tests can name
//! what they expect. A message has the form `file:line: what: what to do instead`, which editors
//! turn into a link.

use core::fmt;

/// One broken rule at one place of the repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path relative to the root of the repository, with `/` between its parts.
    pub file: String,
    /// Line number, counted from 1.
    pub line: usize,
    /// Which rule is broken.
    pub kind: Kind,
}

impl Finding {
    pub(crate) fn new(file: &str, line: usize, kind: Kind) -> Self {
        Self { file: file.to_owned(), line, kind }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.kind)
    }
}

/// The rules, one variant each; documents refer to a rule by the name of its variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the message of each variant, just below, is its documentation")]
pub enum Kind {
    // Text.
    FileTooLong { lines: usize, lines_max: usize },
    LineTooLong { columns: usize, columns_max: usize },
    TrailingSpace,
    FinalNewline,
    Tab,
    MachinePath { path: &'static str },
    DeadReference { target: String },
    RefusedWords { refused: &'static str },
    BadCommit { title: String, fault: &'static str },
    // Options.
    BadOption { error: String },
    OptionNotInTable { name: String },
    OptionNotRead { name: String },
    // Shape of Rust code.
    DoesNotParse { error: String },
    FunctionTooLong { name: String, lines: usize, lines_max: usize },
    BannedName { name: String, word: &'static str },
    InlineTests,
    RoomsStale,
    FolderTooFull { files: usize, files_max: usize },
    ExceedsNoMore { name: String },
    Twin { other: String, entry: String },
    TwinUnexplained,
    TwinGone { entry: String },
    // Code that is bound to the machine.
    AsmOutsideEngine { name: String },
    SystemCallOutsideSys { name: String },
    LibcGlob,
    ForeignFunctionOutsideSys { name: String },
    UsesStd,
    ReadsEnvironment,
    NotNoStd,
    // Orderings.
    OrderingWithoutPartner { ordering: String },
    RelaxedWithoutReason,
    LabelWithoutPartner { label: String },
    // Floors.
    Circle { files: usize, edges: String },
    ModelCheckerOutsideProtocol,
    // Layers.
    ForeignFile { target: String },
    LayerTableMissing,
    LayerRowMalformed { row: String },
    LayerRowTwice { name: String },
    LayerUnknownCrate { name: String },
    LayerMissingCrate { name: String },
    LayerListsUpward { from: String, to: String },
    FolderName { folder: String, name: String },
    EdgeUpward { from: String, to: String },
    EdgeNotListed { from: String, to: String },
    EdgeToOutsider { from: String, to: String },
    ExternalDependency { from: String, to: String },
    ModelCheckerWithoutCfg { from: String, to: String },
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileTooLong { .. }
            | Self::LineTooLong { .. }
            | Self::TrailingSpace
            | Self::FinalNewline
            | Self::Tab
            | Self::MachinePath { .. }
            | Self::DeadReference { .. }
            | Self::RefusedWords { .. }
            | Self::BadCommit { .. }
            | Self::BadOption { .. }
            | Self::OptionNotInTable { .. }
            | Self::OptionNotRead { .. } => self.fmt_text(f),
            Self::DoesNotParse { .. }
            | Self::FunctionTooLong { .. }
            | Self::BannedName { .. }
            | Self::InlineTests => self.fmt_shape(f),
            Self::RoomsStale
            | Self::FolderTooFull { .. }
            | Self::ExceedsNoMore { .. }
            | Self::Twin { .. }
            | Self::TwinUnexplained
            | Self::TwinGone { .. } => self.fmt_room(f),
            Self::AsmOutsideEngine { .. }
            | Self::SystemCallOutsideSys { .. }
            | Self::LibcGlob
            | Self::ForeignFunctionOutsideSys { .. }
            | Self::UsesStd
            | Self::ReadsEnvironment
            | Self::NotNoStd => self.fmt_machine(f),
            Self::OrderingWithoutPartner { .. }
            | Self::RelaxedWithoutReason
            | Self::LabelWithoutPartner { .. } => self.fmt_ordering(f),
            Self::Circle { .. } | Self::ModelCheckerOutsideProtocol => self.fmt_floor(f),
            _ => self.fmt_layer(f),
        }
    }
}

impl Kind {
    fn fmt_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileTooLong { lines, lines_max } => write!(
                f,
                "file has {lines} lines, limit {lines_max}: split it, one purpose per file"
            ),
            Self::LineTooLong { columns, columns_max } => {
                write!(f, "line has {columns} columns, limit {columns_max}: break it")
            }
            Self::TrailingSpace => write!(f, "white space at the end of the line: remove it"),
            Self::FinalNewline => {
                write!(f, "file does not end with one newline: end it with exactly one")
            }
            Self::Tab => write!(f, "tab in Rust code: indent with spaces, write \\t in strings"),
            Self::MachinePath { path } => write!(
                f,
                "path `{path}` exists on one machine only: use a path relative to the repository"
            ),
            Self::DeadReference { target } => {
                write!(f, "`{target}` is not in the repository: correct the path")
            }
            Self::RefusedWords { refused } => {
                write!(f, "`{refused}`: name the thread or thing that does it, or say it shorter")
            }
            Self::BadCommit { title, fault } => write!(f, "`{title}` {fault}: write it anew"),
            Self::BadOption { error } => f.write_str(error),
            Self::OptionNotInTable { name } => {
                write!(f, "option `{name}` is not described: add a row to docs/options.md")
            }
            Self::OptionNotRead { name } => {
                write!(f, "option `{name}` is read nowhere: remove its row")
            }
            _ => Ok(()),
        }
    }

    fn fmt_shape(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoesNotParse { error } => {
                write!(f, "not valid Rust ({error}): make it compile first")
            }
            Self::FunctionTooLong { name, lines, lines_max } => write!(
                f,
                "function `{name}` has {lines} lines, limit {lines_max}: move a step of it into \
                 a function with a name of its own"
            ),
            Self::BannedName { name, word } => {
                write!(f, "name `{name}` has the empty word `{word}`: name it after what it does")
            }
            Self::InlineTests => {
                write!(f, "tests between code: move them to tests/unit/NAME.rs of the crate")
            }
            _ => Ok(()),
        }
    }

    fn fmt_room(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RoomsStale => {
                write!(f, "the table of rooms differs from the code: run `cargo xtask header`")
            }
            Self::FolderTooFull { files, files_max } => {
                write!(f, "folder has {files} files, limit {files_max}: divide it by purpose")
            }
            Self::ExceedsNoMore { name } => {
                write!(f, "`{name}` keeps the limits now: remove it from the list here")
            }
            Self::Twin { other, entry } => write!(
                f,
                "the same lines as at {other}: make one function of both, or add the line \
                 `{entry}: WHY` to xtask/twins.txt"
            ),
            Self::TwinUnexplained => {
                write!(f, "a twin without a reason: write `PLACE PLACE: why both stay`")
            }
            Self::TwinGone { entry } => {
                write!(f, "`{entry}` is no twin any more: remove the line")
            }
            _ => Ok(()),
        }
    }

    fn fmt_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsmOutsideEngine { name } => write!(
                f,
                "`{name}!` is not allowed here: move it to crates/sheaves-percpu/src/engine/, \
                 crates/sheaves-sys/src/tls/, crates/sheaves-sys/src/reports/probe.rs, \
                 crates/sheaves-preload/src/dl.rs or crates/sheaves-preload/src/sandbox.rs"
            ),
            Self::SystemCallOutsideSys { name } => write!(
                f,
                "`libc::{name}` may enter the kernel: put it behind a function of sheaves-sys"
            ),
            Self::LibcGlob => {
                write!(f, "glob import of libc hides system calls: write `libc::name`")
            }
            Self::ForeignFunctionOutsideSys { name } => write!(
                f,
                "foreign function `{name}` declared outside sheaves-sys: declare it there"
            ),
            Self::UsesStd => {
                write!(f, "`std` in a library crate: use `core`, or sheaves-sys for the system")
            }
            Self::ReadsEnvironment => {
                write!(f, "the environment is read after load: ask `sheaves_sys::options`")
            }
            Self::NotNoStd => {
                write!(f, "library crate links `std`: start its lib.rs with `#![no_std]`")
            }
            _ => Ok(()),
        }
    }

    fn fmt_ordering(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OrderingWithoutPartner { ordering } => write!(
                f,
                "`{ordering}` without a comment that names its partner: write `// {ordering}: \
                 pairs with ...` above it"
            ),
            Self::RelaxedWithoutReason => write!(
                f,
                "`Relaxed` without a reason: write `// Relaxed: ...`, why it suffices, above it"
            ),
            Self::LabelWithoutPartner { label } => write!(
                f,
                "ordering label `{label}` occurs once in the crate: label its \
                 partner too"
            ),
            _ => Ok(()),
        }
    }

    fn fmt_floor(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Circle { files, edges } => write!(
                f,
                "{files} files use each other in a circle ({edges}): move what both need below both"
            ),
            Self::ModelCheckerOutsideProtocol => write!(
                f,
                "`loom` outside protocol/: move the modelled code there, or let it not depend on it"
            ),
            _ => Ok(()),
        }
    }

    fn fmt_layer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ForeignFile { target } => write!(
                f,
                "`{target}` is another crate's: let that publish what is needed, or write it anew"
            ),
            Self::LayerTableMissing => write!(
                f,
                "no layer table: put it between `<!-- layers:begin -->` and `<!-- layers:end -->`"
            ),
            Self::LayerRowMalformed { row } => {
                write!(f, "row `{row}` of the layer table: write | `crate` | may use | what |")
            }
            Self::LayerRowTwice { name } => {
                write!(f, "`{name}` has two rows in the layer table: keep one")
            }
            Self::LayerUnknownCrate { name } => {
                write!(f, "`{name}` is in the layer table but not in crates/: remove its row")
            }
            Self::LayerMissingCrate { name } => {
                write!(f, "crate `{name}` is not in the layer table: give it a row")
            }
            Self::LayerListsUpward { from, to } => {
                write!(f, "the row of `{from}` lists `{to}`, which is not below it: remove it")
            }
            Self::FolderName { folder, name } => {
                write!(f, "crate `{name}` is in `{folder}`: rename the folder to crates/{name}")
            }
            Self::EdgeUpward { from, to } => write!(
                f,
                "`{from}` depends on `{to}`, which is not below it: move the code or turn the edge"
            ),
            Self::EdgeNotListed { from, to } => write!(
                f,
                "`{from}` depends on `{to}`, which its row does not list: add it or \
                 remove the edge"
            ),
            Self::EdgeToOutsider { from, to } => {
                write!(f, "`{from}` depends on `{to}`, across the spine's edge: drop it")
            }
            Self::ExternalDependency { from, to } => {
                write!(f, "library crate `{from}` depends on `{to}`: only libc is allowed")
            }
            Self::ModelCheckerWithoutCfg { from, to } => write!(
                f,
                "`{from}` always depends on `{to}`: put it under [target.'cfg({to})'.dependencies]"
            ),
            _ => Ok(()),
        }
    }
}
