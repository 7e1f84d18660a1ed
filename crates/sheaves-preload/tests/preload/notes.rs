//! The probes of a file, as `readelf` lists them, and those that `docs/tracing.md` describes. Also
//! used by the tests of the C API and of the crate `sheaves`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The registers in which the C ABI passes words.
const REGISTERS: [&str; 4] = ["8@%rdi", "8@%rsi", "8@%rdx", "8@%rcx"];
/// The only instruction of a probe.
const NOP: u8 = 0x90;

/// A probe in a file.
#[derive(Debug)]
pub(crate) struct Note {
    /// `PROVIDER:NAME`.
    pub(crate) name: String,
    arguments: String,
    location: u64,
    base: u64,
}

fn readelf(option: &str, file: &Path) -> String {
    let output = Command::new("readelf").args(["-W", option]).arg(file).output().unwrap();
    assert!(output.status.success(), "readelf {option}");
    String::from_utf8(output.stdout).unwrap()
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_end_matches(',').trim_start_matches("0x"), 16).unwrap()
}

/// All probes of our providers in a file.
pub(crate) fn notes(file: &Path) -> Vec<Note> {
    let (mut notes, mut provider) = (Vec::<Note>::new(), "");
    let text = readelf("-n", file);
    for line in text.lines() {
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        match key.split_whitespace().last().unwrap_or("") {
            "Provider" => provider = value,
            "Name" => notes.push(Note {
                name: format!("{provider}:{value}"),
                arguments: String::new(),
                location: 0,
                base: 0,
            }),
            "Location" => {
                let note = notes.last_mut().unwrap();
                let mut words = value.split_whitespace();
                note.location = hexadecimal(words.next().unwrap());
                note.base = hexadecimal(words.nth(1).unwrap());
            }
            "Arguments" => notes.last_mut().unwrap().arguments = value.trim().to_owned(),
            _ => {}
        }
    }
    let is_ours =
        |note: &Note| ["sheaves:", "otel_memory:"].iter().any(|p| note.name.starts_with(p));
    notes.retain(is_ours);
    notes
}

impl Note {
    /// The place in the file, by the file's segments, after a check that a `nop` is there.
    pub(crate) fn offset(&self, file: &Path) -> u64 {
        let offset = file_offset(file, self.location);
        let bytes = std::fs::read(file).unwrap();
        assert_eq!(bytes[offset as usize], NOP, "{self:?}: not a nop");
        // perf computes it in this way.
        let base = file_offset(file, self.base);
        assert_eq!(base + self.location - self.base, offset, "{self:?}: perf looks elsewhere");
        offset
    }
}

fn file_offset(file: &Path, address: u64) -> u64 {
    for line in readelf("-l", file).lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        if let ["LOAD", offset, start, _, bytes, ..] = words[..] {
            let (start, bytes) = (hexadecimal(start), hexadecimal(bytes));
            if (start..start + bytes).contains(&address) {
                return hexadecimal(offset) + address - start;
            }
        }
    }
    panic!("{address:#x} is in no segment");
}

/// The described probes, with the number of their arguments.
fn described() -> BTreeMap<String, usize> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tracing.md");
    let (mut probes, mut provider) = (BTreeMap::new(), String::new());
    for line in std::fs::read_to_string(page).unwrap().lines() {
        if let Some(name) = line.strip_prefix("## Provider `") {
            provider = name.trim_end_matches('`').to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, rest) = row.split_once("` | ").unwrap();
            let arguments = rest.split(" | ").next().unwrap();
            probes.insert(format!("{provider}:{name}"), arguments.split(", ").count());
        }
    }
    probes
}

/// Fails unless a file has the described probes. Those of samples may be absent.
pub(crate) fn check_described(file: &Path) {
    let described = described();
    let mut found = BTreeMap::new();
    for note in notes(file) {
        note.offset(file);
        let count = note.arguments.split_whitespace().count();
        assert_eq!(note.arguments, REGISTERS[..count].join(" "), "{note:?}");
        let before = found.insert(note.name, count);
        assert!(before.is_none_or(|before| before == count));
    }
    for (name, count) in &found {
        assert_eq!(described.get(name), Some(count), "{name} in docs/tracing.md");
    }
    for name in described.keys().filter(|name| name.starts_with("sheaves:")) {
        assert!(found.contains_key(name), "{name} is not in {}", file.display());
    }
}
