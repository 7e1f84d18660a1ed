//! A line for each contender: a dot at its median, and its spread.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{
    Axis, Drawn, GRID, OURS, PALE, PEER, Spread, TITLE, cut, failed, picture, short, text,
    title_height, width,
};
use crate::harness::Failure;

const WIDTH: u32 = 580;
const LINE: u32 = 22;
const LABELS: u32 = 46;
const FIGURES: u32 = 64;
const MARGIN: u32 = 8;

pub(crate) struct Dots<'r> {
    pub(crate) title: &'r str,
    /// What the axis says.
    pub(crate) about: String,
    /// Whether 1 is what values are compared with.
    pub(crate) is_relative: bool,
    /// From the top down.
    pub(crate) marks: Vec<Mark<'r>>,
}

pub(crate) struct Mark<'r> {
    pub(crate) name: &'r str,
    pub(crate) spread: Spread,
    pub(crate) is_ours: bool,
}

impl Dots<'_> {
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let lines = self.marks.len() as u32 * LINE;
        let height = title_height(self.title) + MARGIN + lines + LABELS;
        picture((WIDTH, height), |area| self.draw_on(area).map_err(failed))
    }

    fn draw_on<'a>(&self, area: &super::Area<'a>) -> Drawn<'a> {
        let lines = self.marks.len() as f64;
        let spreads = self.marks.iter().map(|mark| mark.spread);
        let values = spreads.flat_map(|spread| spread.on_axis());
        let axis = Axis::new(values, self.is_relative);
        let names = self.marks.iter().map(|mark| width(mark.name)).max().unwrap_or(0) + 2 * MARGIN;
        area.draw_text(self.title, &text(HPos::Left, true), (names as i32, TITLE as i32 / 2))?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(title_height(self.title) + MARGIN)
            .margin_right(FIGURES)
            .x_label_area_size(LABELS)
            .y_label_area_size(names)
            .build_cartesian_2d(axis.clone(), -0.5..lines - 0.5)?;
        chart
            .configure_mesh()
            .disable_y_axis()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .axis_style(GRID)
            .label_style(text(HPos::Center, false))
            .axis_desc_style(text(HPos::Center, false))
            .x_desc(format!("{}{}", self.about, axis.scale()))
            .draw()?;
        if self.is_relative {
            let line = [(1.0, -0.5), (1.0, lines - 0.5)];
            chart.draw_series([PathElement::new(line, PEER.stroke_width(1))])?;
        }
        for (index, mark) in self.marks.iter().enumerate() {
            let y = lines - 1.0 - index as f64;
            let colour = if mark.is_ours { OURS[0] } else { PEER };
            let median = mark.spread.median;
            let line = mark.spread.within(&axis.range()).map(|end| (end, y));
            chart.draw_series([PathElement::new(line, colour.mix(PALE).stroke_width(3))])?;
            chart.draw_series([Circle::new((median, y), 5, colour.filled())])?;
            let style = |horizontal| text(horizontal, mark.is_ours);
            let name = Text::new(cut(mark.name), (-8, 0), style(HPos::Right));
            let figure = Text::new(short(median), (8, 0), style(HPos::Left));
            chart.draw_series([EmptyElement::at((axis.range().start, y)) + name])?;
            chart.draw_series([EmptyElement::at((axis.range().end, y)) + figure])?;
        }
        Ok(())
    }
}
