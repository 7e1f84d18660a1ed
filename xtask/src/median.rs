//! Averages, of the figures that commands print.

/// The middle value; the upper one of two. Not a number if there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which `share` of the values in ascending order lies, between its neighbours.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let [below, above] = [place.floor(), place.ceil()].map(|place| sorted[place as usize]);
    Some(below + (above - below) * place.fract())
}

/// The geometric mean of positive values.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut logarithms, mut count) = (0.0, 0_u32);
    for value in values {
        logarithms += value.ln();
        count += 1;
    }
    (logarithms / f64::from(count)).exp()
}
