//! Opens the page of a report in a browser: that each picture has its marks, that all text can be
//! read in light and dark, and that nothing is loaded. Without chromium there is no test.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// Runs in the page, and leaves what it saw in the document.
const SCRIPT: &str = r#"
const colour = (element, part) => getComputedStyle(element)[part];
const all = (parent, name) => [...parent.querySelectorAll(name)];
const picture = (svg) => {
  const frame = svg.getBoundingClientRect();
  const texts = all(svg, 'text')
    .map(text => [text.textContent.trim(), text.getBoundingClientRect()])
    .filter(([text]) => text);
  const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const inside = (box) => box.left > frame.left - 1 && box.right < frame.right + 1
    && box.top > frame.top - 1 && box.bottom < frame.bottom + 1;
  const lines = all(svg, 'polyline');
  return {
    name: document.getElementById(svg.getAttribute('aria-labelledby')).textContent,
    words: document.getElementById(svg.getAttribute('aria-describedby')).textContent,
    dots: all(svg, 'circle').length,
    lines: lines.filter(line => line.points.length > 2).length,
    ground: colour(svg.querySelector('rect'), 'fill'),
    inks: [...new Set(all(svg, 'text').map(text => colour(text, 'fill')))],
    marks: [...new Set([...all(svg, 'circle').map(dot => colour(dot, 'fill')),
      ...lines.filter(line => line.points.length > 2).map(line => colour(line, 'stroke'))])],
    overlaps: texts.flatMap(([a, at], i) => texts.slice(i + 1)
      .filter(([, other]) => meet(at, other)).map(([b]) => a + ' / ' + b)),
    outside: texts.filter(([, at]) => !inside(at)).map(([text]) => text),
  };
};
let refused = 0;
document.addEventListener('securitypolicyviolation', () => refused += 1);
addEventListener('load', () => setTimeout(() => {
  const seen = {
    ground: colour(document.body, 'backgroundColor'),
    ink: colour(document.body, 'color'),
    link: colour(document.querySelector('nav a'), 'color'),
    wide: document.documentElement.scrollWidth > innerWidth,
    pictures: all(document, 'svg').map(picture),
    loaded: performance.getEntriesByType('resource').length,
    refused,
  };
  document.body.textContent = 'BEGIN' + JSON.stringify(seen) + 'END';
}, 100));
"#;

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("sheaves-bench-page-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn row(heading: &str, column: &str, contender: &str, figures: [f64; 3]) -> Value {
    let [low, median, high] = figures;
    let unit = match column {
        "rate" => "op/s",
        "throughput" => "op/s to glibc",
        "peak, MiB" => "bytes",
        _ => "ns/op",
    };
    let divisor = if unit == "bytes" { 1_048_576.0 } else { 1.0 };
    let [low, median, high] = [low, median, high].map(|value| value * divisor);
    let mut shown = json!({"heading": heading, "column": column, "divisor": divisor});
    if let Ok(size) = column.parse::<usize>() {
        shown["size"] = size.into();
        shown["size_unit"] = "bytes".into();
    }
    json!({"workload": format!("{heading}/{column}"), "contender": contender, "unit": unit,
        "samples": 5, "median": median, "low": low, "high": high, "shown": shown,
        "is_ours": contender.starts_with("malloc")})
}

const CONTENDERS: [&str; 6] = [
    "malloc",
    "malloc (a long name)",
    "<b>bold</b>",
    "\"quoted\"",
    "crossbeam-epoch+mimalloc",
    "p",
];

/// Contenders of a picture that has the width of two: all colours.
const CROWD: usize = 14;

/// A report with a picture of each kind: values at the same place, in decades, at zero, and equal.
fn report() -> Value {
    let mut rows = Vec::new();
    for (index, contender) in CONTENDERS.into_iter().enumerate() {
        let value = index as f64 + 1.0;
        for size in ["8", "16", "32", "64", "128", "1024", "4096", "1048576"] {
            rows.push(row("sizes", size, contender, [2.0, 2.0 + value / 100.0, 4.0]));
            rows.push(row("decades", size, contender, [2.0, value.powi(9), 1e9]));
        }
        rows.push(row("measures", "ns", contender, [0.0, 0.0, 1e5 * value]));
        rows.push(row("measures", "rate", contender, [value, 1e6 * value, 1e8]));
        rows.push(row("programs", "throughput", contender, [0.9, 0.9 + value / 100.0, 1.2]));
        let mut traced = row("traced", "peak, MiB", contender, [0.0; 3]);
        let end = value * 1e6;
        traced["work"] = json!({"resident": [[0.0, 1e6], [5.0, 9e9], [9.0 + value, 1e6 + end]]});
        rows.push(traced);
        rows.push(row("alone", "ns", contender, [value; 3]));
    }
    let crowd = (CONTENDERS.len()..CROWD).map(|index| format!("peer-{index}"));
    for contender in CONTENDERS.into_iter().map(str::to_owned).chain(crowd) {
        for size in ["8", "64", "1024"] {
            rows.push(row("crowd", size, &contender, [1.0, 2.0, 3.0]));
        }
    }
    let machine = json!({"cpu": "<i>", "cpus": 2, "kernel": "6", "glibc": "2", "thp": "never"});
    json!({"schema": "sheaves-bench/1", "table": "all & more", "machine": machine, "rows": rows})
}

fn page(folder: &Path) -> String {
    let (from, html) = (folder.join("report.json"), folder.join("page.html"));
    std::fs::write(&from, report().to_string()).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_sheaves-bench"));
    let output = bench.arg("--from").arg(&from).arg("--html").arg(&html).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(html).unwrap()
}

/// What a browser sees of the page, with `more` in it; `None` without a browser.
fn look(folder: &Path, page: &str, is_dark: bool, more: &str) -> Option<Value> {
    let file = folder.join("watched.html");
    let page =
        page.replacen("default-src 'none'", "default-src 'none'; script-src 'unsafe-inline'", 1);
    let body = format!("<body>\n<script>{SCRIPT}</script>{more}");
    std::fs::write(&file, page.replacen("<body>", &body, 1)).unwrap();
    // With a time limit; a browser that hangs is a failure.
    let mut browser = Command::new("timeout");
    browser.args(["--kill-after=5", "120", "chromium", "--headless", "--no-sandbox"]);
    browser.args(["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]);
    browser.args(["--disable-background-networking", "--disable-component-update"]);
    browser.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1300,1000"]);
    browser.args(["--virtual-time-budget=5000", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    browser.arg(format!("--blink-settings=preferredColorScheme={}", u8::from(!is_dark)));
    let output = browser.arg(format!("file://{}", file.display())).output().unwrap();
    // What `timeout` ends with if there is no such program.
    if output.status.code() == Some(127) {
        println!("skipped: chromium is not installed");
        return None;
    }
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let seen = seen.split_once("BEGIN").and_then(|(_, rest)| rest.split_once("END"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("{}: {errors}", output.status));
    let plain = seen.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(serde_json::from_str(&plain).unwrap())
}

/// How far apart two colours such as `rgb(0, 10, 255)` are: 1 to 21, by the rules for accessible
/// pages, which ask for 4.5 for text and 3 for marks.
fn contrast(one: &Value, other: &Value) -> f64 {
    let brightness = |colour: &Value| {
        let numbers = colour.as_str().unwrap().trim_start_matches("rgb(").trim_end_matches(')');
        let channel = |number: &str| {
            let value = number.trim().parse::<f64>().unwrap() / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let channels: Vec<f64> = numbers.split(',').map(channel).collect();
        0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2] + 0.05
    };
    let (one, other) = (brightness(one), brightness(other));
    one.max(other) / one.min(other)
}

/// The pictures in their order: what their names begin with, dots, and lines.
const PICTURES: [(&str, usize, usize); 9] = [
    ("sizes: ns/op", 48, 6),
    ("decades: ns/op", 48, 6),
    ("measures, ns: ns/op", 6, 0),
    ("measures, rate: op/s (higher", 6, 0),
    ("programs, throughput: op/s to glibc (higher", 6, 0),
    ("traced: MiB", 0, 6),
    ("traced, peak, MiB: MiB (lower", 6, 0),
    ("alone, ns: ns/op (lower", 6, 0),
    ("crowd: ns/op", 3 * CROWD, CROWD),
];

#[test]
fn a_browser_shows_every_mark_in_light_and_dark() {
    let folder = Folder::new("browser");
    let page = page(&folder.0);
    let mut grounds = Vec::new();
    for is_dark in [false, true] {
        let Some(seen) = look(&folder.0, &page, is_dark, "") else { return };
        assert_eq!(seen["loaded"], 0);
        assert_eq!(seen["refused"], 0);
        assert_eq!(seen["wide"], false);
        assert!(contrast(&seen["ground"], &seen["ink"]) >= 7.0);
        assert!(contrast(&seen["ground"], &seen["link"]) >= 4.5);
        let pictures = seen["pictures"].as_array().unwrap();
        assert_eq!(pictures.len(), PICTURES.len());
        for (picture, (name, dots, lines)) in pictures.iter().zip(PICTURES) {
            assert!(picture["name"].as_str().unwrap().starts_with(name), "{picture}");
            assert!(CONTENDERS.iter().all(|it| picture["words"].as_str().unwrap().contains(it)));
            assert_eq!(
                (&picture["dots"], &picture["lines"]),
                (&dots.into(), &lines.into()),
                "{name}"
            );
            assert_eq!(picture["overlaps"], json!([]), "{name}");
            assert_eq!(picture["outside"], json!([]), "{name}");
            assert_eq!(picture["ground"], seen["ground"], "{name}");
            assert_eq!(picture["inks"], json!([seen["ink"]]), "{name}");
            for mark in picture["marks"].as_array().unwrap() {
                assert!(contrast(mark, &picture["ground"]) >= 3.0, "{name}: {mark}");
            }
        }
        grounds.push(seen["ground"].clone());
    }
    assert!(contrast(&grounds[0], &grounds[1]) > 10.0, "{grounds:?}");
    // The page's own policy is what refuses.
    let image = "<img src=\"http://127.0.0.1:9/image.png\">";
    let seen = look(&folder.0, &page, false, image).unwrap();
    assert_eq!(seen["refused"], 1);
}

#[test]
fn a_page_names_no_other_place_and_has_the_report() {
    let folder = Folder::new("text");
    let page = page(&folder.0);
    for part in ["://", "src=", "url(", "@import", "<link", "<script", "<b>", "<i>"] {
        assert!(!page.contains(part), "{part}");
    }
    let (_, report) = page.split_once("<pre id=\"report\">").unwrap();
    let (report, _) = report.split_once("</pre>").unwrap();
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    let report: Value = serde_json::from_str(&report.replace("&amp;", "&")).unwrap();
    assert_eq!(report["rows"].as_array().unwrap().len(), 6 * 21 + 3 * CROWD);
    assert_eq!(report["table"], "all & more");
}
