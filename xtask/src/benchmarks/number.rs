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
