//! The report as a page for browsers: pictures with their figures, what was printed, and the JSON.
//!
//! The page is one file that loads nothing, which its own policy forbids. Its style sheet gives the
//! colours of the pictures a second value for dark screens.

use plotters::style::RGBColor;

use super::chart::COLOURS;
use super::plot::{self, Picture};
use super::{Failure, Figure, Report, Summary, distinct, number};

const STYLE: &str = include_str!("page.css");
/// Nothing is loaded and nothing runs.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub(crate) fn render(report: &Report) -> Result<String, Failure> {
    let json = folded("Raw data, as JSON", &report.to_json()?, " id=\"report\"");
    let report = &named(report);
    let headings = report.headings();
    let (mut links, mut sections) = (String::new(), String::new());
    for (index, heading) in headings.iter().enumerate() {
        links += &format!("<a href=\"#t{index}\">{}</a>\n", escaped(heading));
        sections += &section(report, heading, index)?;
    }
    let links = if headings.len() > 3 { format!("<nav>\n{links}</nav>\n") } else { String::new() };
    let title = escaped(&report.table);
    let machine = escaped(&report.machine.to_string());
    let text = folded("As text", &report.text, "");
    let about = escaped(&report.about);
    let style = colours() + STYLE;
    Ok(format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">
<meta name=\"viewport\" content=\"width=device-width\">
<title>Sheaves: {title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class=\"about\">{about}</p>
<p>{machine}</p>
<p>A dot is a median; the pale line through it reaches from the 10th to the 90th percentile, or to \
the edge, if that is farther. The names of Sheaves are bold.</p>
</header>
{links}<main>
{sections}</main>
{text}{json}</body>
</html>
"
    ))
}

/// The report with the names that readers know: `malloc` alone could be anyone's.
fn named(report: &Report) -> Report {
    let mut report = report.clone();
    for row in report.rows.iter_mut().filter(|row| row.is_ours) {
        row.contender = format!("Sheaves {}", row.contender);
    }
    report
}

/// What a row measures, as a sentence.
fn sentence(row: &Figure) -> String {
    let unit = match row.shown.divisor as u64 {
        1_000 => "Microseconds",
        1_000_000 => "Milliseconds",
        _ => "Nanoseconds",
    };
    let of = |what: &str| if what == "op" { "operation".to_owned() } else { what.to_owned() };
    match row.unit.split_once('/') {
        Some(("ns", what)) => format!("{unit} per {}: lower is better.", of(what)),
        Some(("op", "s")) => "Operations per second: higher is better.".to_owned(),
        _ if row.unit == "ns" => format!("{unit}: lower is better."),
        _ if row.unit == "bytes" => "Memory: lower is better.".to_owned(),
        _ => match row.unit.strip_prefix("bytes to ") {
            Some(other) => format!("Memory, divided by that of {other}: lower is better."),
            None => format!("Measured in {}.", row.unit),
        },
    }
}

fn folded(summary: &str, text: &str, attribute: &str) -> String {
    let text = escaped(text);
    format!("<details><summary>{summary}</summary><pre{attribute}>{text}</pre></details>\n")
}

/// A printed table: its pictures, then its figures.
fn section(report: &Report, heading: &str, index: usize) -> Result<String, Failure> {
    let pictures = plot::pictures(report, heading)?;
    let is_wide = pictures.len() > 1 || pictures.iter().any(|it| it.is_wide);
    let class = if is_wide { " class=\"wide\"" } else { "" };
    let pictures = pictures.iter().enumerate();
    let pictures: String =
        pictures.map(|(picture, it)| inline(it, &format!("p{index}-{picture}"))).collect();
    let table = figures(report, heading);
    let about = report.rows_of(heading).next().map_or(String::new(), sentence);
    let (heading, about) = (escaped(heading), escaped(&about));
    Ok(format!(
        "<section id=\"t{index}\"{class}>
<h2>{heading}</h2>
<p>{about}</p>
<div class=\"pictures\">
{pictures}</div>
<details><summary>Figures</summary><div class=\"scrolls\">{table}</div></details>
</section>
"
    ))
}

/// The picture with a name and a description for readers that cannot see it.
fn inline(picture: &Picture, id: &str) -> String {
    let (title, description) = (escaped(&picture.title), escaped(&picture.description));
    let svg = picture.svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let names = format!("role=\"img\" aria-labelledby=\"{id}\" aria-describedby=\"{id}d\"");
    let svg = svg.replacen("<svg ", &format!("<svg {names} "), 1);
    let words =
        format!("<title id=\"{id}\">{title}</title>\n<desc id=\"{id}d\">{description}</desc>\n");
    svg.replacen(">\n", &format!(">\n{words}"), 1)
}

/// Medians and percentiles.
fn figures(report: &Report, heading: &str) -> String {
    let rows: Vec<&Figure> = report.rows_of(heading).collect();
    let columns = distinct(rows.iter().map(|row| row.shown.column.as_str()));
    let head = |column: &&str| format!("<th scope=\"col\">{}</th>", escaped(column));
    let head: String = columns.iter().map(head).collect();
    let contenders = distinct(rows.iter().map(|row| row.contender.as_str()));
    let line = |contender: &str| {
        let cell = |column: &&str| {
            let is_it = |row: &&&Figure| row.contender == contender && row.shown.column == *column;
            rows.iter().find(is_it).map_or("<td>-</td>".into(), |row| cell(row))
        };
        let cells: String = columns.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escaped(contender))
    };
    let lines: String = contenders.into_iter().map(line).collect();
    format!("<table>\n<tr><th></th>{head}</tr>\n{lines}</table>")
}

fn cell(row: &Figure) -> String {
    let Summary { median, low, high, .. } = row.summary;
    let [median, low, high] = [median, low, high].map(|value| number(value / row.shown.divisor));
    format!("<td>{median} <small>[{low}..{high}]</small></td>")
}

/// The colours as variables, for light and dark screens, and where the pictures use them.
fn colours() -> String {
    let hex = |RGBColor(red, green, blue)| format!("#{red:02X}{green:02X}{blue:02X}");
    let (mut light, mut dark, mut used) = (String::new(), String::new(), String::new());
    for (index, (on_white, on_black)) in COLOURS.into_iter().enumerate() {
        light += &format!("--c{index}:{};", hex(on_white));
        dark += &format!("--c{index}:{};", hex(on_black));
        for part in ["fill", "stroke"] {
            used += &format!("svg [{part}=\"{}\"]{{{part}:var(--c{index})}}\n", hex(on_white));
        }
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{used}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
