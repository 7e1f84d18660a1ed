//! The README's table: ranges over the processors that have been measured.

use core::fmt::Write as _;
use std::path::PathBuf;

use super::lines::{Figures, LINES, figures, name_of};
use super::number::range;
use super::programs;

const HEAD: &str = "\
| ns | Sheaves | best peer | ratio | table |
|---|--:|--:|--:|---|
";

/// The figures of these machines.
pub(super) fn figures_of(machines: &[PathBuf]) -> anyhow::Result<String> {
    let mut text = HEAD.to_owned();
    for line in LINES.iter().filter(|line| line.is_in_readme) {
        let of_machines = machines.iter().map(|folder| figures(line, folder));
        let of_machines: Vec<Figures> =
            of_machines.filter_map(Result::transpose).collect::<anyhow::Result<_>>()?;
        let range = |figure: fn(&Figures) -> f64| range(of_machines.iter().map(figure));
        let [own, best, ratio] = [range(|it| it.own), range(|it| it.best), range(|it| it.ratio)];
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| {} | {own} | {best} | {ratio} | `{}` |", line.words, line.table);
    }
    let (with_programs, rows) = programs::in_readme(machines)?;
    text.push_str(&rows);
    let names: Vec<_> = machines.iter().map(|folder| name_of(folder)).collect();
    let (names, with_programs) = (names.join(", "), with_programs.join(", "));
    let _ = writeln!(
        text,
        "\nRanges over {names}, with two CPUs each; programs on {with_programs}, beside the range \
         of the peers."
    );
    Ok(text)
}
