//! Draws memory over time: a panel for each printed table, a line for each contender.

use core::fmt::Display;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::{Failure, Report, trace_of};

type Points = Vec<(f64, f64)>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const PANEL: (u32, u32) = (760, 380);
const COLUMNS: usize = 2;
/// The axis of time is that much longer, for the names.
const LEGEND: f64 = 1.18;
const FONT: (&str, i32) = ("sans-serif", 16);
const MIB: f64 = (1 << 20) as f64;

/// The picture as SVG; a report that was made without traces has no lines.
pub(crate) fn draw(report: &Report) -> Result<String, Failure> {
    let headings = report.headings();
    let lines = headings.len().div_ceil(COLUMNS);
    let mut svg = String::new();
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * lines as u32);
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    for (heading, panel) in headings.iter().zip(area.split_evenly((lines, COLUMNS))) {
        draw_panel(&panel, heading, &traces(report, heading)).map_err(failed)?;
    }
    area.present().map_err(failed)?;
    drop(area);
    Ok(svg)
}

fn failed(error: impl Display) -> Failure {
    Failure::run(format!("cannot draw: {error}"))
}

/// Contenders with seconds and MiB.
fn traces<'r>(report: &'r Report, heading: &str) -> Vec<(&'r str, Points)> {
    let rows = report.rows.iter().filter(|row| row.shown.heading == heading);
    let traced = rows.filter_map(|row| {
        let points = trace_of(row.work.as_ref()?)?;
        let points = points.into_iter().map(|(second, bytes)| (second, bytes / MIB));
        Some((row.contender.as_str(), points.collect()))
    });
    traced.collect()
}

type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

fn draw_panel<'a>(
    area: &Area<'a>,
    heading: &str,
    traces: &[(&str, Points)],
) -> Result<(), DrawError<'a>> {
    let points = || traces.iter().flat_map(|(_, points)| points);
    let seconds = points().map(|point| point.0).fold(1.0, f64::max);
    let mebibytes = points().map(|point| point.1).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(heading, FONT)
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..seconds * LEGEND, 0.0..mebibytes * 1.05)?;
    chart.configure_mesh().x_desc("seconds").y_desc("MiB").max_light_lines(1).draw()?;
    for (index, (contender, points)) in traces.iter().enumerate() {
        let style = Palette99::pick(index).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(*contender)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], style));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.7)).draw()
}

#[cfg(test)]
#[path = "../../tests/unit/harness_plot.rs"]
mod tests;
