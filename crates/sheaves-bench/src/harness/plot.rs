//! The pictures of a report: which there are for a printed table, and what they say.
//!
//! Memory over time has lines, where it was traced. A table of three sizes or more has lines, too;
//! else each column has a line for each contender, with the best one on top.

use plotters::prelude::RGBColor;

use super::chart::curves::{self, Across, Curve, Curves};
use super::chart::dots::{Dots, Mark};
use super::chart::{self, Spread, failed, short};
use super::{Failure, Figure, Report, distinct, trace_of};

/// From this many sizes on a table is drawn as lines.
const SIZES_MIN: usize = 3;
const MIB: f64 = (1 << 20) as f64;
const COLUMNS: usize = 2;
/// What is larger is no figure of a benchmark, and no axis could be made for it.
const DRAWN_MAX: f64 = 1e18;

/// A picture, and what it shows in words.
pub(crate) struct Picture {
    pub(crate) svg: String,
    pub(crate) is_wide: bool,
    pub(crate) title: String,
    pub(crate) description: String,
}

/// Memory over time as one picture; a report that was made without traces has no lines.
pub(crate) fn draw_traces(report: &Report) -> Result<String, Failure> {
    let headings = report.headings();
    let lines = headings.len().div_ceil(COLUMNS);
    let (width, height) = curves::SIZE;
    chart::picture((width * COLUMNS as u32, height * lines.max(1) as u32), |area| {
        for (heading, panel) in headings.iter().zip(area.split_evenly((lines, COLUMNS))) {
            traces(report, heading, heading).draw_on(&panel).map_err(failed)?;
        }
        Ok(())
    })
}

/// The pictures of a printed table.
pub(crate) fn pictures(report: &Report, heading: &str) -> Result<Vec<Picture>, Failure> {
    let mut pictures = Vec::new();
    let traces = traces(report, heading, "memory over time");
    let is_traced = !traces.curves.is_empty();
    if is_traced {
        pictures.push(picture_of(heading, &traces)?);
    }
    let rows: Vec<&Figure> = report.rows_of(heading).filter(|row| can_be_drawn(row)).collect();
    let columns = distinct(rows.iter().map(|row| row.shown.column.as_str()));
    if columns.len() >= SIZES_MIN && rows.iter().all(|row| row.shown.size.is_some()) {
        pictures.push(picture_of(heading, &sizes(report, &rows))?);
        return Ok(pictures);
    }
    for column in &columns {
        let rows = rows.iter().copied().filter(|row| row.shown.column == *column);
        let title = if columns.len() > 1 || is_traced { column } else { "" };
        let dots = dots(title, rows.collect());
        let figures = dots.marks.iter().map(|mark| (mark.name, mark.spread));
        pictures.push(Picture {
            svg: dots.draw()?,
            is_wide: false,
            title: format!("{heading}, {column}: {}", dots.about),
            description: in_words(figures),
        });
    }
    Ok(pictures)
}

/// Contenders with seconds and MiB.
fn traces<'r>(report: &'r Report, heading: &'r str, title: &'r str) -> Curves<'r> {
    let contenders = Contenders::of(report);
    let traced = report.rows_of(heading).filter_map(|row| {
        let points = trace_of(row.work.as_ref()?)?;
        let point = |(second, bytes): (f64, f64)| {
            let median = bytes / MIB;
            (second, Spread { median, low: median, high: median })
        };
        Some(contenders.curve(&row.contender, points.into_iter().map(point).collect()))
    });
    let about = "MiB above the start".to_owned();
    let (across, across_about) = (Across::Seconds, "seconds".to_owned());
    Curves { title, across, across_about, about, curves: traced.collect() }
}

fn sizes<'r>(report: &'r Report, rows: &[&'r Figure]) -> Curves<'r> {
    let contenders = Contenders::of(report);
    let names = distinct(rows.iter().map(|row| row.contender.as_str()));
    let curves = names.into_iter().map(|name| {
        let own = rows.iter().filter(|row| row.contender == name);
        let point = |row: &&Figure| Some((row.shown.size?.max(1) as f64, spread(row)));
        let mut points: Vec<_> = own.filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        contenders.curve(name, points)
    });
    let about = rows.first().map_or(String::new(), |row| about(row));
    let size_unit = rows.first().and_then(|row| row.shown.size_unit.as_deref()).unwrap_or("size");
    let (across, across_about) = (Across::Sizes, format!("{size_unit}, logarithmic"));
    Curves { title: "", across, across_about, about, curves: curves.collect() }
}

fn dots<'r>(title: &'r str, mut rows: Vec<&'r Figure>) -> Dots<'r> {
    rows.sort_by(|a, b| spread(a).median.total_cmp(&spread(b).median));
    let unit = rows.first().map_or("", |row| &row.unit);
    if is_rate(unit) {
        rows.reverse();
    }
    let mark =
        |row: &&'r Figure| Mark { name: &row.contender, spread: spread(row), is_ours: row.is_ours };
    let about = rows.first().map_or(String::new(), |row| about(row));
    let marks = rows.iter().map(mark).collect();
    Dots { title, about, is_relative: unit.contains(" to "), marks }
}

fn picture_of(heading: &str, curves: &Curves<'_>) -> Result<Picture, Failure> {
    let ends = curves.curves.iter().filter_map(|curve| Some((curve.name, curve.points.last()?.1)));
    Ok(Picture {
        svg: curves.draw()?,
        is_wide: curves.is_wide(),
        title: format!("{heading}: {}", curves.about),
        description: format!("At the right end: {}", in_words(ends)),
    })
}

/// What a picture shows, for readers that cannot see it.
fn in_words<'r>(figures: impl Iterator<Item = (&'r str, Spread)>) -> String {
    let one = |(name, Spread { median, low, high }): (&str, Spread)| {
        let [median, low, high] = [median, low, high].map(short);
        format!("{name} {median} ({low} to {high})")
    };
    figures.map(one).collect::<Vec<_>>().join(", ")
}

/// As the text has it.
fn spread(row: &Figure) -> Spread {
    let [median, low, high] = [row.summary.median, row.summary.low, row.summary.high]
        .map(|value| value / row.shown.divisor);
    Spread { median, low, high }
}

fn can_be_drawn(row: &Figure) -> bool {
    let Spread { median, low, high } = spread(row);
    [median, low, high].iter().all(|value| value.abs() < DRAWN_MAX)
}

fn is_rate(unit: &str) -> bool {
    unit.starts_with("op/s")
}

/// The unit in which a row is shown, and which values are good.
fn about(row: &Figure) -> String {
    let unit = row.unit.as_str();
    let (first, rest) = unit.split_at(unit.find('/').unwrap_or(unit.len()));
    let shown = match (first, row.shown.divisor as u64) {
        (_, 1) => first.to_owned(),
        ("ns", 1_000) => "us".to_owned(),
        ("ns", 1_000_000) => "ms".to_owned(),
        ("bytes", 1_024) => "KiB".to_owned(),
        ("bytes", 1_048_576) => "MiB".to_owned(),
        (_, divisor) => format!("{} {first}", short(divisor as f64)),
    };
    let good = match first {
        _ if is_rate(unit) => " (higher is better)",
        "ns" | "bytes" => " (lower is better)",
        _ if unit.starts_with("bytes to ") => " (lower is better)",
        _ => "",
    };
    format!("{shown}{rest}{good}")
}

/// All contenders of a report, each with a colour that it has in every picture.
struct Contenders<'r>(Vec<(&'r str, bool, RGBColor)>);

impl<'r> Contenders<'r> {
    fn of(report: &'r Report) -> Contenders<'r> {
        let mut contenders: Vec<(&str, bool, RGBColor)> = Vec::new();
        for row in report.rows.iter().filter(|row| !row.is_mode) {
            let is_known = contenders.iter().any(|(known, ..)| *known == row.contender);
            if !is_known {
                let alike = contenders.iter().filter(|(_, is_ours, _)| *is_ours == row.is_ours);
                let colour = chart::colour(row.is_ours, alike.count());
                contenders.push((&row.contender, row.is_ours, colour));
            }
        }
        Contenders(contenders)
    }

    fn curve(&self, name: &'r str, points: Vec<(f64, Spread)>) -> Curve<'r> {
        let known = self.0.iter().find(|(known, ..)| *known == name);
        let (_, is_ours, colour) = *known.unwrap_or(&(name, false, chart::colour(false, 0)));
        Curve { name, is_ours, colour, points }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_plot.rs"]
mod tests;
