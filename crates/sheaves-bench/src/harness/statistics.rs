//! The few statistics that the reports need.
//!
//! A sample is one number, in nanoseconds per operation. What is printed is the median, and as low
//! and high the 10th and the 90th percentile: a mean would follow the one sample in which the
//! machine did something else.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) samples: usize,
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Summarises a series; all zeros for an empty one.
pub(crate) fn summarize(series: &[f64]) -> Summary {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    Summary {
        samples: sorted.len(),
        median: percentile(&sorted, 0.5),
        low: percentile(&sorted, 0.1),
        high: percentile(&sorted, 0.9),
    }
}

/// The value below which `share` of the sorted series lies, interpolated between neighbours.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let below = place as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The summary of `of / to`, taken round by round, so that what slowed a whole round down cancels.
pub(crate) fn paired_ratio(of: &[f64], to: &[f64]) -> Summary {
    let ratios: Vec<f64> =
        of.iter().zip(to).filter(|(_, to)| **to > 0.0).map(|(of, to)| of / to).collect();
    summarize(&ratios)
}

/// The arithmetic mean; 0 for an empty series.
pub(crate) fn mean(series: &[f64]) -> f64 {
    if series.is_empty() { 0.0 } else { series.iter().sum::<f64>() / series.len() as f64 }
}

/// The standard deviation of a whole population; 0 for an empty series.
pub(crate) fn standard_deviation(series: &[f64]) -> f64 {
    let middle = mean(series);
    let squares: Vec<f64> = series.iter().map(|value| (value - middle).powi(2)).collect();
    mean(&squares).sqrt()
}

/// The geometric mean, which is the right one for ratios; `None` for an empty series.
pub(crate) fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    if ratios.is_empty() || ratios.iter().any(|ratio| *ratio <= 0.0) {
        return None;
    }
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    Some((sum / ratios.len() as f64).exp())
}
