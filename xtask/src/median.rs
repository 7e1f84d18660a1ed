//! Averages, of the figures that commands print.

/// The middle value; the upper one of two. Not a number if there is none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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
