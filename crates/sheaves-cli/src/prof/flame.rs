//! Flame graphs of bytes.

use inferno::flamegraph::{Options, from_lines};

use super::named::{Profile, what};
use crate::refusal::Refusal;

/// The bytes in use, as SVG.
pub(crate) fn of_profile(profile: &Profile) -> Result<Vec<u8>, Refusal> {
    // Their sum must be a number, too.
    let most = u64::MAX / (profile.dump.sites.len() as u64).max(1);
    let sites = profile.dump.sites.iter().filter(|site| site.bytes != 0);
    let lines = sites.map(|site| {
        let stack = profile.stack(site).map(|frame| frame.function.as_str());
        line(&what(site), stack, &[site.bytes.min(most)])
    });
    draw(profile.head(), profile.about(), &lines.collect::<Vec<_>>())
}

/// A line of the drawing program: a stack and its bytes; of two numbers the second one counts, and
/// the difference is a colour.
pub(crate) fn line<'a>(
    what: &str,
    innermost_first: impl DoubleEndedIterator<Item = &'a str>,
    bytes: &[u64],
) -> String {
    let mut line = String::new();
    for frame in innermost_first.rev() {
        line += &frame.replace(';', ":");
        line.push(';');
    }
    line += &format!("[{}]", what.replace(';', ":"));
    bytes.iter().for_each(|bytes| line += &format!(" {bytes}"));
    line
}

/// Draws lines.
pub(crate) fn draw(title: String, about: String, lines: &[String]) -> Result<Vec<u8>, Refusal> {
    if lines.iter().all(|line| line.ends_with(" 0")) {
        return Err(Refusal::bad_data("the profile has no bytes in use: there is nothing to draw"));
    }
    let mut options = Options::default();
    (options.title, options.subtitle) = (title, Some(about).filter(|about| !about.is_empty()));
    options.count_name = "bytes".to_owned();
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Refusal::bad_data(format!("cannot draw the graph: {error}")))?;
    Ok(svg)
}
