//! Writes `docs/fast-paths.md`, and lists its stale rows.

use core::fmt::Write as _;

use super::fast_path::FastPath;
use super::hot_path::{Counts, HotPath};
use super::listing::Function;

const TABLE_BEGIN: &str = "<!-- counts:begin -->";
const TABLE_END: &str = "<!-- counts:end -->";

const HEAD: &str = "\
# The fast paths, instruction by instruction

Written by `cargo xtask disasm`; do not edit. `cargo xtask disasm --check` fails when a count below
differs from what the compiler makes of the source today.

";

const HOW_COUNTED: &str = "\
Each function is a thin wrapper in `crates/sheaves-bench/examples/fast_paths.rs`, so its return is
one of the instructions. The hot path starts at the entry, follows unconditional jumps, falls
through conditional jumps, and ends at the return; a jump is taken only where the side below it
cannot reach a return without a call. `memory` counts the instructions that read or write memory
through an operand, `locked` the atomic read-modify-writes.

In the listings `>` marks the hot path. Addresses are replaced by labels and symbols.
";

/// The whole page.
#[must_use]
pub fn write(functions: &[(FastPath, Function)], toolchain: &str) -> String {
    let mut page = String::from(HEAD);
    page.push_str(&format!("Built with {toolchain}, profile `release`.\n\n{TABLE_BEGIN}\n"));
    page.push_str("| function | what | instructions | memory | branches | calls | locked |\n");
    page.push_str("|---|---|--:|--:|--:|--:|--:|\n");
    for (path, function) in functions {
        let counts = HotPath::of(function).counts(function);
        page.push_str(&table_row(path, &counts));
    }
    page.push_str(&format!("{TABLE_END}\n\n{HOW_COUNTED}"));
    for (path, function) in functions {
        page.push_str(&format!("\n## `{}`\n\n{}\n\n", path.symbol, path.what));
        page.push_str(&format!("```text\n{}```\n", listing(function)));
    }
    page
}

/// The rows of the table that differ between two pages, as lines for a message.
#[must_use]
pub fn stale_rows(committed: &str, fresh: &str) -> Vec<String> {
    let (committed, fresh) = (table_rows(committed), table_rows(fresh));
    let missing = |rows: &[&str], row: &&str| !rows.contains(row);
    let gone = committed.iter().filter(|row| missing(&fresh, row));
    let new = fresh.iter().filter(|row| missing(&committed, row));
    let gone = gone.map(|row| format!("the page says {row}"));
    gone.chain(new.map(|row| format!("the build has {row}"))).collect()
}

fn table_rows(page: &str) -> Vec<&str> {
    let rows = page.lines().skip_while(|line| *line != TABLE_BEGIN).skip(1);
    rows.take_while(|line| *line != TABLE_END).collect()
}

fn table_row(path: &FastPath, counts: &Counts) -> String {
    let Counts { instructions, memory, branches, calls, locked } = counts;
    format!(
        "| `{}` | {} | {instructions} | {memory} | {branches} | {calls} | {locked} |\n",
        path.symbol, path.what
    )
}

fn listing(function: &Function) -> String {
    let hot_path = HotPath::of(function);
    let labels = function.labels();
    let mut listing = String::new();
    for (index, instruction) in function.instructions.iter().enumerate() {
        if let Some(label) = labels.get(&instruction.address) {
            let _ = writeln!(listing, "{label}:");
        }
        let mark = if hot_path.indexes.contains(&index) { '>' } else { ' ' };
        let _ = writeln!(listing, "{mark}   {}", instruction.text());
    }
    listing
}
