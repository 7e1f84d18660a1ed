//! Flame graphs of the bytes in use.

use inferno::flamegraph::{Options, from_lines};

use super::named::{Profile, what};
use crate::refusal::Refusal;

/// The graph as SVG.
pub(crate) fn draw(profile: &Profile) -> Result<Vec<u8>, Refusal> {
    let sites = profile.dump.sites.iter().filter(|site| site.bytes != 0);
    // Their sum must be a number, too.
    let most = u64::MAX / (profile.dump.sites.len() as u64).max(1);
    let lines: Vec<String> = sites
        .map(|site| {
            let mut stack: Vec<String> =
                profile.stack(site).map(|frame| plain(&frame.function)).collect();
            stack.reverse();
            stack.push(format!("[{}]", plain(&what(site))));
            format!("{} {}", stack.join(";"), site.bytes.min(most))
        })
        .collect();
    if lines.is_empty() {
        return Err(Refusal::bad_data(
            "the profile has no sample in use: there is nothing to draw",
        ));
    }
    let mut options = Options::default();
    options.title = "Heap in use".to_owned();
    options.count_name = "bytes".to_owned();
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Refusal::bad_data(format!("cannot draw the graph: {error}")))?;
    Ok(svg)
}

/// A name without the sign that separates names.
fn plain(name: &str) -> String {
    name.replace(';', ":")
}
