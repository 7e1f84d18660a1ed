//! `sheaves inspect`: explains a core dump by the records of guarded blocks that are in it.
//!
//! For programs whose handler of SIGSEGV has printed nothing, or whose output is lost. The records
//! are in the dump, see `sheaves_slab::internal::trap::layout`; names of functions come from
//! the files that the process had mapped.

mod core_file;

use core::fmt::Write as _;
use std::process::ExitCode;

use sheaves_slab::internal::trap::layout::{
    Event, Geometry, Misuse, RECORD_WORDS, RECORDS_AT, Record, STATES_AT, State, WORDS, error_of,
};

use crate::command_line::InspectOptions;
use crate::output::print;
use crate::prof::symbols::Symbols;
use crate::refusal::Refusal;
use core_file::Core;

/// Prints what is known of the end of a process.
pub(crate) fn inspect(options: &InspectOptions) -> Result<ExitCode, Refusal> {
    let mut core = Core::open(&options.core)?;
    let path = options.core.display();
    let tables = core.find_tables(WORDS)?;
    if tables.is_empty() {
        return Err(Refusal::bad_data(format!(
            "{path} has no records of guarded blocks: the process had none (SHEAVES_GUARD, \
             sheaves guard on), or its private memory is not in the dump (core(5))"
        )));
    }
    let (geometry, words) = choose(tables, core.address).ok_or_else(|| {
        Refusal::bad_data(format!("{path} has damaged records of guarded blocks"))
    })?;
    let mut text = String::new();
    let _ = writeln!(text, "thread {} ended by signal {}", core.thread, core.signal);
    let mut symbols = Symbols::new(core::mem::take(&mut core.mappings));
    let mut records = [Record::NONE; 2];
    let read = |place: usize, record: &mut Record| read_record(&words, place, record);
    let is_access = core.address.is_some_and(|address| geometry.contains(address));
    let found = match core.address {
        Some(address) if is_access => {
            geometry.explain(address, &mut records, read).map(|misuse| (misuse, address))
        }
        // A double free, for example, which has aborted the process.
        _ => error_of(&words).map(|(misuse, address, _)| (misuse, address)).filter(
            |(misuse, address)| {
                !misuse.is_access()
                    && geometry.place_of(*address).is_some_and(|place| read(place, &mut records[0]))
            },
        ),
    };
    let is_found = found.is_some();
    match found {
        Some((misuse, address)) => {
            explain(&mut text, misuse, address, &records[0]);
            if is_access {
                write_frames(&mut text, core.frames().into_iter(), true, &mut symbols);
            }
            write_events(&mut text, &records[0], &mut symbols);
        }
        None => text.push_str("not at a guarded block\n"),
    }
    print(&text)?;
    Ok(ExitCode::from(u8::from(!is_found)))
}

/// The table whose pool has the address of the fault, or else that of the newest error.
fn choose(tables: Vec<Vec<u64>>, address: Option<usize>) -> Option<(Geometry, Vec<u64>)> {
    let all = tables.into_iter().filter_map(|words| Some((Geometry::of_head(&words)?, words)));
    all.max_by_key(|(geometry, words)| {
        let has_address = address.is_some_and(|address| geometry.contains(address));
        (has_address, error_of(words).map(|(.., ms)| ms))
    })
}

fn read_record(words: &[u64], place: usize, record: &mut Record) -> bool {
    record.state = words[STATES_AT + place];
    let start = RECORDS_AT + place * RECORD_WORDS;
    record.words.copy_from_slice(&words[start..start + RECORD_WORDS]);
    !matches!(State::of(record.state), State::Unused | State::Changing)
}

fn explain(text: &mut String, misuse: Misuse, address: usize, record: &Record) {
    let mut room = [0; 32];
    let (name, bytes, block) = (record.name(&mut room), record.bytes(), record.address());
    let position = record.position(address);
    let _ = writeln!(
        text,
        "{}: {address:#x}, {position} a block of {bytes} bytes at {block:#x} ({name})",
        misuse.name()
    );
}

fn write_events(text: &mut String, record: &Record, symbols: &mut Symbols) {
    let begin = record.alloc().ms();
    let mut event = |how: &str, event: Event<'_>| {
        if event.is_there() {
            let (thread, later) = (event.thread(), event.ms().saturating_sub(begin));
            let when = if later == 0 { String::new() } else { format!(" {later} ms later") };
            let _ = writeln!(text, "{how}{when} by thread {thread}");
            write_frames(text, event.frames(), false, symbols);
        }
    };
    event("allocated", record.alloc());
    event("deferred", record.deferral());
    event("freed", record.free());
}

/// Writes functions; the first address is that of an instruction if `is_access`.
fn write_frames(
    text: &mut String,
    frames: impl Iterator<Item = usize>,
    is_access: bool,
    symbols: &mut Symbols,
) {
    for (index, address) in frames.enumerate() {
        // As if it were a return address, for the look-up.
        let after = address as u64 + u64::from(is_access && index == 0);
        for frame in symbols.frames(after) {
            let _ = write!(text, "  #{index} {address:#x} {}", frame.function);
            if !frame.file.is_empty() {
                let _ = write!(text, " ({}:{})", frame.file, frame.line);
            }
            text.push('\n');
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/inspect.rs"]
mod tests;
