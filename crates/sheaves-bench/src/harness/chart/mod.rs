//! Draws figures as SVG: [`dots`] with their spread, and [`curves`] over sizes or time.
//!
//! A chart knows no report. All colours are those of [`COLOURS`], which the style sheet of a page
//! can replace. Text has the second colour on the first, so that it can be read in any of them.

mod axis;
pub(crate) mod curves;
pub(crate) mod dots;

use core::fmt::Display;
use core::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::Failure;
pub(crate) use axis::{Axis, short};

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn<'a> =
    Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

/// Each colour on white, and what a page shows in its place on black.
pub(crate) const COLOURS: [(RGBColor, RGBColor); 19] = [
    (GROUND, RGBColor(0x12, 0x15, 0x1A)),
    (INK, RGBColor(0xE4, 0xE7, 0xEB)),
    (GRID, RGBColor(0x33, 0x3A, 0x44)),
    (PEER, RGBColor(0x9A, 0xA3, 0xAF)),
    (OURS[0], RGBColor(0x5A, 0xA9, 0xFF)),
    (OURS[1], RGBColor(0x7F, 0xE0, 0xF0)),
    (OURS[2], RGBColor(0xA5, 0x9B, 0xFF)),
    (PEERS[0], RGBColor(0xFF, 0xB0, 0x54)),
    (PEERS[1], RGBColor(0x5F, 0xD3, 0x8D)),
    (PEERS[2], RGBColor(0xFF, 0x8A, 0x7A)),
    (PEERS[3], RGBColor(0xF0, 0x9B, 0xD0)),
    (PEERS[4], RGBColor(0xD9, 0xC2, 0x5C)),
    (PEERS[5], RGBColor(0xC9, 0xA0, 0x80)),
    (PEERS[6], RGBColor(0xB8, 0xBF, 0xC8)),
    (PEERS[7], RGBColor(0x9F, 0xC0, 0x6A)),
    (PEERS[8], RGBColor(0xFF, 0x6F, 0x91)),
    (PEERS[9], RGBColor(0xC9, 0xA6, 0xE8)),
    (PEERS[10], RGBColor(0x8F, 0xE3, 0x88)),
    (PEERS[11], RGBColor(0xF5, 0xF5, 0xF5)),
];

pub(crate) const GROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
const INK: RGBColor = RGBColor(0x1B, 0x1F, 0x24);
const GRID: RGBColor = RGBColor(0xDD, 0xE1, 0xE6);
/// A peer whose name is beside its mark.
const PEER: RGBColor = RGBColor(0x6B, 0x74, 0x80);
/// Blue and its neighbours are ours alone.
const OURS: [RGBColor; 3] =
    [RGBColor(0x00, 0x5F, 0xCC), RGBColor(0x00, 0x8C, 0xA3), RGBColor(0x5B, 0x4F, 0xD6)];
/// First those of the Okabe-Ito palette, which colour-blind people can tell apart, darkened for
/// thin lines on white.
const PEERS: [RGBColor; 12] = [
    RGBColor(0xC2, 0x70, 0x00),
    RGBColor(0x00, 0x8A, 0x62),
    RGBColor(0xC4, 0x4A, 0x1A),
    RGBColor(0xB5, 0x5A, 0x94),
    RGBColor(0x96, 0x84, 0x00),
    RGBColor(0x7A, 0x50, 0x38),
    RGBColor(0x55, 0x5C, 0x66),
    RGBColor(0x5E, 0x7D, 0x1F),
    RGBColor(0xA3, 0x12, 0x3F),
    RGBColor(0x9C, 0x6B, 0xB8),
    RGBColor(0x2F, 0x6B, 0x2A),
    RGBColor(0x3A, 0x3A, 0x3A),
];

/// The colour of the contender with this number among ours, or among the peers.
pub(crate) fn colour(is_ours: bool, number: usize) -> RGBColor {
    let colours: &[RGBColor] = if is_ours { &OURS } else { &PEERS };
    colours[number % colours.len()]
}

/// A value on its way to a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// The values that an axis has to have: a spread far beyond its median would leave the medians
    /// no room.
    fn on_axis(&self) -> [f64; 3] {
        let Spread { median, low, high } = *self;
        [low.max(median - median.abs() / 2.0), median, high.min(median + median.abs())]
    }

    /// The spread, as far as an axis has it.
    fn within(&self, range: &Range<f64>) -> [f64; 2] {
        [self.low, self.high].map(|end| end.clamp(range.start, range.end))
    }
}

/// How much of its colour a spread has, under its median.
const PALE: f64 = 0.4;

/// A picture of this size in pixels, which `draw` fills.
pub(crate) fn picture(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    area.fill(&GROUND).map_err(failed)?;
    draw(&area)?;
    area.present().map_err(failed)?;
    drop(area);
    Ok(svg)
}

pub(crate) fn failed(error: impl Display) -> Failure {
    Failure::run(format!("cannot draw: {error}"))
}

/// Text of 13 pixels whose left or right end or middle is at its place.
fn text(horizontal: HPos, is_bold: bool) -> TextStyle<'static> {
    let style = if is_bold { FontStyle::Bold } else { FontStyle::Normal };
    let style = TextStyle::from(("sans-serif", 16, style)).color(&INK);
    style.pos(Pos::new(horizontal, VPos::Center))
}

/// Characters of a name, at most.
const NAME_MAX: usize = 26;

/// Where the title is, in pixels from the top; a picture without one begins there.
const TITLE: u32 = 26;

fn title_height(title: &str) -> u32 {
    if title.is_empty() { 0 } else { TITLE }
}

/// A name that leaves room for the rest of a picture.
fn cut(name: &str) -> String {
    let mut characters = name.chars();
    let begin: String = characters.by_ref().take(NAME_MAX).collect();
    if characters.next().is_some() { begin + "..." } else { begin }
}

/// The pixels that this name takes at the most.
fn width(name: &str) -> u32 {
    cut(name).chars().count() as u32 * 8
}
