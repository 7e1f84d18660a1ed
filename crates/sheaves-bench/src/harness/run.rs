//! The course of a run: case by case, printing each table of figures as soon as it is complete.

use super::measure::{self, Effort, Sampler, Series};
use super::text;
use super::{
    Case, Children, Contender, Entrant, Failure, Figure, Judge, Part, Random, Report, Row, Shown,
    Summary, Table, summarize,
};

pub(crate) struct Plan {
    /// As asked for on the command line.
    pub(crate) title: String,
    pub(crate) table: &'static Table,
    pub(crate) cases: Vec<Case>,
    pub(crate) effort: Effort,
    /// Whether the report has the memory of children over time.
    pub(crate) is_traced: bool,
}

impl Plan {
    /// Runs all cases. `print` gets the text of the report, part by part.
    pub(crate) fn run(
        &self,
        print: &mut dyn FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Report, Failure> {
        measure::become_threaded();
        let mut children = Children::new(self.is_traced);
        let mut report = Report::new(&self.title);
        report.about = self.table.about.to_owned();
        let mut random = Random::new(2011);
        print(&text::header(&report))?;
        for (index, case) in self.cases.iter().enumerate() {
            self.measure(case, &mut children, &mut random, &mut report)?;
            for heading in complete(case, &self.cases[index + 1..]) {
                print(&text::figures(&report, heading))?;
            }
        }
        (self.table.finish)(&mut report);
        print(&text::ending(&report, &(self.table.remarks)(&report)))?;
        Ok(report)
    }

    fn measure(
        &self,
        case: &Case,
        children: &mut Children,
        random: &mut Random,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let mut contenders = Vec::new();
        let mut samplers: Vec<Sampler> = Vec::new();
        for contender in &case.contenders {
            samplers.push(match (&contender.part, contender.mode) {
                (Part::LeftOut(reason), _) => {
                    report.leave_out(case.name(), contender.family, reason);
                    continue;
                }
                (_, Some(mode)) => children.sampler(mode, case, contender)?,
                (Part::Takes(make), None) => make()?,
            });
            contenders.push(contender);
        }
        let effort = case.effort.unwrap_or(self.effort);
        let series = measure::rounds(&mut samplers, effort, random)?;
        add(report, (self.table, case), &contenders, &series, &samplers);
        Ok(())
    }
}

/// The printed tables that have rows of this case and of none that is to come.
fn complete<'a>(case: &'a Case, to_come: &[Case]) -> Vec<&'a str> {
    let headings = |case: &'a Case| case.rows.iter().map(|row| row.shown.heading.as_str());
    let mut complete: Vec<&str> = headings(case).collect();
    complete.dedup();
    let rows_to_come = to_come.iter().flat_map(|case| &case.rows);
    complete.retain(|heading| !rows_to_come.clone().any(|row| row.shown.heading == *heading));
    complete
}

/// Adds what one case brought: `series` has one entry for each contender, and in it one for each
/// row.
fn add(
    report: &mut Report,
    (table, case): (&Table, &Case),
    contenders: &[&Contender],
    series: &Series,
    samplers: &[Sampler],
) {
    for (index, row) in case.rows.iter().enumerate() {
        let mut lanes: Vec<(&Contender, &[f64])> = Vec::new();
        for ((contender, rows), sampler) in contenders.iter().zip(series).zip(samplers) {
            // A contender that does not measure what the row is about has no figure.
            if rows[index].iter().all(|value| value.is_finite()) {
                lanes.push((contender, &rows[index]));
                let mut figure = figure(table, row, contender, summarize(&rows[index]));
                figure.contender = contender.name();
                figure.is_mode = contender.is_mode();
                // What was done is told once for all rows.
                figure.work = if index == 0 { sampler.work() } else { None };
                report.rows.push(figure);
            }
        }
        compare(report, table, row, &lanes);
    }
}

/// A figure of a contender under its common name.
fn figure(table: &Table, row: &Row, contender: &Contender, summary: Summary) -> Figure {
    let size_unit = table.sizes.as_ref().filter(|_| row.shown.size.is_some());
    let size_unit = size_unit.map(|sizes| sizes.unit.to_owned());
    Figure {
        workload: row.name.clone(),
        contender: contender.family.to_owned(),
        unit: row.unit.to_owned(),
        summary,
        shown: Shown { size_unit, ..row.shown.clone() },
        work: None,
        is_mode: false,
        is_ours: table.ours.contains(&contender.family),
    }
}

/// Compares the contenders of a row under their common names: of two modes the better one counts.
fn compare(report: &mut Report, table: &Table, row: &Row, lanes: &[(&Contender, &[f64])]) {
    let mut field: Vec<Entrant<'_>> = Vec::new();
    for (contender, series) in lanes {
        let summary = summarize(series);
        let name = contender.family;
        let better = lanes
            .iter()
            .filter(|(other, _)| other.family == name)
            .all(|(_, other)| summary.median <= summarize(other).median);
        if better && !field.iter().any(|entrant| entrant.name == name) {
            field.push(Entrant { name, series, median: summary.median });
            if contender.is_mode() {
                report.rows.push(figure(table, row, contender, summary));
            }
        }
    }
    row.compare(&mut Judge { report, workload: &row.name, field });
}

#[cfg(test)]
#[path = "../../tests/unit/harness_run.rs"]
mod tests;
