//! A line for each contender over sizes or time, with its name at its end.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    Area, Axis, Drawn, GRID, PALE, Spread, TITLE, cut, failed, picture, text, title_height, width,
};
use crate::harness::Failure;

pub(crate) const SIZE: (u32, u32) = (580, 380);
/// With more lines than `CROWD`, or more sizes, a picture has the width of two.
const WIDE: (u32, u32) = (1190, 560);
const CROWD: usize = 8;
const SIZES_MAX: usize = 8;
const LABELS: u32 = 46;
const LEFT: u32 = 64;
const MARGIN: u32 = 8;
/// From the end of a line to its name.
const LEADER: i32 = 26;
const NAME_HEIGHT: i32 = 16;
/// From a contender to the next at the same size, and from the first to the last, as shares of the
/// axis.
const BESIDE: f64 = 0.008;
const BESIDE_MAX: f64 = 0.05;

pub(crate) struct Curves<'r> {
    pub(crate) title: &'r str,
    pub(crate) across: Across,
    /// What the axes of points and of values say.
    pub(crate) across_about: String,
    pub(crate) about: String,
    pub(crate) curves: Vec<Curve<'r>>,
}

/// What the points follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Across {
    /// Points are few, and drawn with their spread.
    Sizes,
    Seconds,
}

#[derive(Clone)]
pub(crate) struct Curve<'r> {
    pub(crate) name: &'r str,
    pub(crate) is_ours: bool,
    pub(crate) colour: RGBColor,
    /// Sizes or seconds, in ascending order.
    pub(crate) points: Vec<(f64, Spread)>,
}

impl Curves<'_> {
    pub(crate) fn is_wide(&self) -> bool {
        let has_many = |curve: &Curve<'_>| curve.points.len() > SIZES_MAX;
        let is_long = self.across == Across::Sizes && self.curves.iter().any(has_many);
        self.curves.len() > CROWD || is_long
    }

    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let size = if self.is_wide() { WIDE } else { SIZE };
        picture(size, |area| self.draw_on(area).map_err(failed))
    }

    pub(crate) fn draw_on<'a>(&self, area: &Area<'a>) -> Drawn<'a> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let spreads = points().map(|(_, spread)| spread);
        let axis = Axis::new(spreads.flat_map(Spread::on_axis), false);
        let names = self.curves.iter().map(|curve| width(curve.name)).max().unwrap_or(0);
        let right = names + LEADER as u32 + 2 * MARGIN;
        let pixels = area.dim_in_pixel().0.saturating_sub(MARGIN + LEFT + right).max(1);
        let places = points().map(|(across, _)| *across);
        let places = match self.across {
            Across::Sizes => Axis::of_sizes(places, pixels),
            Across::Seconds => Axis::of_time(places),
        };
        area.draw_text(
            self.title,
            &text(HPos::Left, true),
            ((MARGIN + LEFT) as i32, TITLE as i32 / 2),
        )?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(title_height(self.title) + MARGIN)
            .margin_left(MARGIN)
            .margin_right(right)
            .x_label_area_size(LABELS)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(places.clone(), axis.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text(HPos::Center, false))
            .axis_desc_style(text(HPos::Center, false))
            .x_desc(&self.across_about)
            .y_desc(format!("{}{}", self.about, axis.scale()))
            .draw()?;
        let curves = self.side_by_side(&places);
        for curve in &curves {
            let width = if curve.is_ours { 3 } else { 2 };
            let line = curve.points.iter().map(|(across, it)| (*across, it.median));
            chart.draw_series(LineSeries::new(line.clone(), curve.colour.stroke_width(width)))?;
            if self.across == Across::Sizes {
                let spread = |(across, it): &(f64, Spread)| {
                    let ends = it.within(&axis.range()).map(|end| (*across, end));
                    PathElement::new(ends, curve.colour.mix(PALE).stroke_width(2))
                };
                chart.draw_series(curve.points.iter().map(spread))?;
                let dot = |at| Circle::new(at, width + 1, curve.colour.filled());
                chart.draw_series(line.map(dot))?;
            }
        }
        draw_names(&curves, chart.plotting_area())
    }

    /// The lines with ours last, on top of the others. At each size they are some pixels apart, so
    /// that none hides the spread of another.
    fn side_by_side(&self, places: &Axis) -> Vec<Curve<'_>> {
        let mut curves: Vec<Curve<'_>> = self.curves.clone();
        curves.sort_by_key(|curve| curve.is_ours);
        if self.across == Across::Sizes {
            let middle = (curves.len() as f64 - 1.0) / 2.0;
            let apart = (BESIDE_MAX / curves.len() as f64).min(BESIDE);
            for (index, curve) in curves.iter_mut().enumerate() {
                for (size, _) in &mut curve.points {
                    *size = places.beside(*size, (index as f64 - middle) * apart);
                }
            }
        }
        curves
    }
}

type Plane<'a> = DrawingArea<SVGBackend<'a>, Cartesian2d<Axis, Axis>>;

/// Writes each contender's name beside the end of its line.
fn draw_names<'a>(curves: &[Curve<'_>], plane: &Plane<'a>) -> Drawn<'a> {
    let ends = curves.iter().filter_map(|curve| {
        let (across, spread) = curve.points.last()?;
        Some((curve, (*across, spread.median)))
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by_key(|(_, end)| plane.map_coordinate(end).1);
    let heights: Vec<i32> = ends.iter().map(|(_, end)| plane.map_coordinate(end).1).collect();
    let heights = apart(heights, plane.get_y_axis_pixel_range().end);
    let right = plane.get_x_axis_pixel_range().end;
    for ((curve, end), height) in ends.iter().zip(heights) {
        let (x, y) = plane.map_coordinate(end);
        let (dx, dy) = (right + LEADER - x, height - y);
        let leader = PathElement::new([(4, 0), (dx - 4, dy)], curve.colour.stroke_width(1));
        let name = Text::new(cut(curve.name), (dx, dy), text(HPos::Left, curve.is_ours));
        plane.draw(&(EmptyElement::at(*end) + leader + name))?;
    }
    Ok(())
}

/// Moves names apart which would overlap: `heights` are in ascending order, and none may be below
/// `bottom`.
fn apart(mut heights: Vec<i32>, bottom: i32) -> Vec<i32> {
    for index in 1..heights.len() {
        heights[index] = heights[index].max(heights[index - 1] + NAME_HEIGHT);
    }
    let mut limit = bottom;
    for height in heights.iter_mut().rev() {
        *height = (*height).min(limit);
        limit = *height - NAME_HEIGHT;
    }
    heights
}

#[cfg(test)]
#[path = "../../../tests/unit/harness_chart_curves.rs"]
mod tests;
