//! Figures as text.

/// Three digits.
pub(super) fn number(value: f64) -> String {
    let digits = match value {
        0.0..0.0995 => 3,
        0.0..9.995 => 2,
        0.0..99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// The least and the greatest of some figures.
pub(super) fn range(figures: impl Iterator<Item = f64> + Clone) -> String {
    let least = figures.clone().fold(f64::INFINITY, f64::min);
    let greatest = figures.fold(f64::NEG_INFINITY, f64::max);
    let [least, greatest] = [least, greatest].map(number);
    if least == greatest { least } else { format!("{least}..{greatest}") }
}
