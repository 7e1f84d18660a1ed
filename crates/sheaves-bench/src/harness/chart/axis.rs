//! An axis: where it begins and ends, its scale, and the values that it names.

use core::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use super::width;

/// With these ratios of the largest to the smallest value the scale is logarithmic.
const LOG_RATIOS: Range<f64> = 30.0..1e15;
/// Values that an axis names, about.
const TICKS: f64 = 6.0;
/// Pixels between the names of two sizes, at least.
const BETWEEN: u32 = 4;
/// What is left free at each end, as a share of the axis.
const MARGIN: f64 = 0.06;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    scale: Scale,
    range: Range<f64>,
    ticks: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
    /// Logarithmic, with all digits.
    Sizes,
}

impl Axis {
    /// An axis for these values, which are finite. It begins at zero, unless it `is_relative`: then
    /// it has 1, and begins where the values do.
    pub(crate) fn new(values: impl Iterator<Item = f64>, is_relative: bool) -> Axis {
        let one = is_relative.then_some(1.0);
        let (min, max) = extremes(values.chain(one)).unwrap_or((0.0, 1.0));
        if min > 0.0 && LOG_RATIOS.contains(&(max / min)) {
            return Axis::logarithmic(min, max);
        }
        Axis::linear(min, max, is_relative)
    }

    /// An axis for seconds, which begins at zero.
    pub(crate) fn of_time(seconds: impl Iterator<Item = f64>) -> Axis {
        let (min, max) = extremes(seconds).unwrap_or((0.0, 1.0));
        Axis::linear(min, max, false)
    }

    fn linear(min: f64, max: f64, is_relative: bool) -> Axis {
        let (min, max) = if is_relative { (min, max) } else { (min.min(0.0), max.max(0.0)) };
        let margin = if max > min { (max - min) * MARGIN } else { 1.0 };
        let begin = if is_relative || min < 0.0 { min - margin } else { 0.0 };
        let range = begin..max + margin;
        let step = round_up((range.end - range.start) / TICKS);
        let ticks = (range.start / step).ceil() as i64..=(range.end / step).floor() as i64;
        let ticks = ticks.map(|tick| tick as f64 * step).collect();
        Axis { scale: Scale::Linear, range, ticks }
    }

    fn logarithmic(min: f64, max: f64) -> Axis {
        let margin = (max / min).powf(MARGIN);
        let range = min / margin..max * margin;
        let decades = (range.end / range.start).log10();
        let steps: &[f64] = if decades < 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let every = (decades / TICKS).ceil() as i32;
        let [first, last] = [range.start, range.end].map(|end| end.log10().floor() as i32);
        let ticks = (first.div_euclid(every)..=last.div_euclid(every))
            .flat_map(|index| steps.iter().map(move |step| step * 10_f64.powi(index * every)));
        let ticks = ticks.filter(|tick| range.contains(tick)).collect();
        Axis { scale: Scale::Logarithmic, range, ticks }
    }

    /// An axis of `pixels` for sizes, which are positive. It names them, but none so near to the
    /// one before that they could not be read.
    pub(crate) fn of_sizes(sizes: impl Iterator<Item = f64>, pixels: u32) -> Axis {
        let mut sizes: Vec<f64> = sizes.collect();
        sizes.sort_by(f64::total_cmp);
        let (min, max) = extremes(sizes.iter().copied()).unwrap_or((1.0, 2.0));
        let margin = (max / min).powf(MARGIN).max(1.1);
        let range = min / margin..max * margin;
        let mut axis = Axis { scale: Scale::Sizes, range, ticks: Vec::new() };
        for size in sizes {
            let apart = f64::from(width(&axis.format_ext(&size)) + BETWEEN) / f64::from(pixels);
            let place = axis.share(size);
            if axis.ticks.last().is_none_or(|last| place - axis.share(*last) >= apart) {
                axis.ticks.push(size);
            }
        }
        axis
    }

    /// A place beside a size, by a share of the axis.
    pub(crate) fn beside(&self, size: f64, share: f64) -> f64 {
        size * (self.range.end / self.range.start).powf(share)
    }

    /// What the axis says about its scale.
    pub(crate) fn scale(&self) -> &'static str {
        if self.scale == Scale::Linear { "" } else { ", logarithmic" }
    }

    /// The share of the axis that lies below a value.
    fn share(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        match self.scale {
            Scale::Linear => (value - start) / (end - start),
            Scale::Logarithmic | Scale::Sizes => (value / start).ln() / (end / start).ln(),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        start + (self.share(*value) * f64::from(end - start)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        if self.scale != Scale::Sizes {
            return short(*value);
        }
        match *value as u64 {
            size if size >= 1 << 20 && size % (1 << 20) == 0 => format!("{}Mi", size >> 20),
            size if size >= 16 << 10 && size % (1 << 10) == 0 => format!("{}Ki", size >> 10),
            size => size.to_string(),
        }
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let widen = |(min, max): (f64, f64), (low, high): (f64, f64)| (min.min(low), max.max(high));
    values.map(|value| (value, value)).reduce(widen)
}

/// The next of 1, 2, 5, 10, 20 and so on.
fn round_up(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * decade >= step);
    times.unwrap_or(10.0) * decade
}

/// Three digits at most, with k for thousands and so on.
pub(crate) fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 999.5e6 => (value / 1e9, "G"),
        size if size >= 999.5e3 => (value / 1e6, "M"),
        size if size >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 => 2,
        size if size >= 0.000_995 => 4,
        0.0 => 0,
        _ => return format!("{scaled:.0e}{suffix}"),
    };
    let text = format!("{scaled:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

#[cfg(test)]
#[path = "../../../tests/unit/harness_chart_axis.rs"]
mod tests;
