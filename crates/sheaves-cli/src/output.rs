//! What the commands print and write.
//!
//! Names and answers come from other processes and from their files, so all of it passes through
//! one filter: nothing of it can move the cursor, set a title or reverse the order of letters.

use alloc::borrow::Cow;
use core::time::Duration;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::refusal::Refusal;

/// Characters that names have at most where they are shown.
const NAME_CHARS_MAX: usize = 128;

/// A text without what a terminal obeys: `?` stands for each such character. Lines stay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let is_shown = |char: char| char == '\n' || char == '\t' || is_plain(char);
    if text.chars().all(is_shown) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|char| if is_shown(char) { char } else { '?' }).collect())
}

/// A name that something else has chosen: one line of limited length.
pub(crate) fn name(bytes: &[u8]) -> String {
    line(&String::from_utf8_lossy(&bytes[..bytes.len().min(4 * NAME_CHARS_MAX)]), NAME_CHARS_MAX)
}

/// The first `most` characters of a text, as one line.
pub(crate) fn line(text: &str, most: usize) -> String {
    text.chars().take(most).map(|char| if is_plain(char) { char } else { '?' }).collect()
}

/// True of what is neither a control character nor one that changes the direction of others or
/// begins a line.
pub(crate) fn is_plain(char: char) -> bool {
    let is_format = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}' | '\u{feff}');
    !char.is_control() && !is_format
}

/// Prints to stdout; a reader that closes the pipe early (`sheaves top | head`) is no failure.
pub(crate) fn print(text: &str) -> Result<ExitCode, Refusal> {
    print_while_read(text).map(|_| ExitCode::SUCCESS)
}

/// The same; false once nothing reads it any more.
pub(crate) fn print_while_read(text: &str) -> Result<bool, Refusal> {
    let mut out = io::stdout().lock();
    match out.write_all(plain(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Refusal::output(format!("cannot write to stdout: {error}"))),
    }
}

/// Waits for some time; false once nothing reads stdout any more.
pub(crate) fn wait(time: Duration) -> bool {
    let Ok(limit) = Timespec::try_from(time) else { return true };
    let (stdout, end) = (io::stdout(), Instant::now() + time);
    // Only errors are reported: of a pipe, that its readers are gone.
    match poll(&mut [PollFd::new(&stdout, PollFlags::empty())], Some(&limit)) {
        Ok(0) => true,
        Ok(_) => false,
        Err(_) => {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            true
        }
    }
}

/// A number of bytes for a reader.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut number, mut unit) = (count as f64, 0);
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{number:.1} {}", UNITS[unit]) }
}

/// A number of things, in words.
pub(crate) fn count(number: u64, thing: &str) -> String {
    let plural = if thing.ends_with('s') { "es" } else { "s" };
    format!("{number} {thing}{}", if number == 1 { "" } else { plural })
}

/// Prints a line to stderr, if that takes it.
pub(crate) fn say(line: &str) {
    pass_on(&format!("sheaves: {line}"));
}

/// The same with a line of another program.
pub(crate) fn pass_on(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(line).replace('\n', " "));
}

/// Writes a file, or says that it is not complete. Some file systems report a full disk only when
/// the file is stored.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Refusal> {
    let write = || {
        let mut file = std::fs::File::create(path)?;
        file.write_all(bytes)?;
        // Pipes and devices cannot be stored.
        if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
    };
    let cannot = |error| format!("cannot write {}: {error}", path.display());
    write().map_err(|error: io::Error| Refusal::cannot_create(cannot(error)))
}

#[cfg(test)]
#[path = "../tests/unit/output.rs"]
mod tests;
