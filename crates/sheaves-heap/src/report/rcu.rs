//! Readers and grace periods as JSON, for tools. See `sheaves_rcu::internal`.
//!
//! `{"schema":1,"pid","age_ms","rcu":{"completed","under_way":{"number","age_us"} or null,
//! "sequence","shared_sections","lengths":[...]},"readers":[{"tid","name","nesting","sequence",
//! "has_ended"}]}`

use core::fmt::{self, Write};

use sheaves_rcu::internal;
use sheaves_sys::thread::{self, NAME_BYTES};
use sheaves_sys::{fork, request};

use super::{Flush, Output};

const SCHEMA: u32 = 1;

/// Prints, as [`crate::report::write`] does.
pub fn write(flush: &mut Flush<'_>) -> i32 {
    Output::print(flush, print)
}

fn print(out: &mut Output<'_>) -> fmt::Result {
    let survey = internal::survey();
    write!(
        out,
        "{{\"schema\":{SCHEMA},\"pid\":{},\"age_ms\":{}",
        request::process_id(),
        fork::age_ms()
    )?;
    write!(out, ",\"rcu\":{{\"completed\":{},\"under_way\":", survey.completed)?;
    match survey.under_way {
        None => write!(out, "null")?,
        Some((number, age_ns)) => {
            write!(out, "{{\"number\":{number},\"age_us\":{}}}", age_ns / 1000)?;
        }
    }
    let (sequence, shared) = (survey.sequence, survey.shared_sections);
    write!(out, ",\"sequence\":{sequence},\"shared_sections\":{shared},\"lengths\":[")?;
    for (index, count) in survey.lengths.iter().enumerate() {
        write!(out, "{}{count}", if index == 0 { "" } else { "," })?;
    }
    write!(out, "],\"lengths_us\":{}}},\"readers\":[", survey.lengths_ns / 1000)?;
    for (index, reader) in internal::readers().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(out, "{comma}{{\"tid\":{},\"name\":\"", reader.thread)?;
        let mut name = [0; NAME_BYTES];
        let used = thread::name(reader.thread, &mut name);
        out.write_name(core::str::from_utf8(&name[..used]).unwrap_or(""))?;
        let (nesting, sequence) = (reader.nesting, reader.sequence);
        write!(out, "\",\"nesting\":{nesting},\"sequence\":{sequence}")?;
        write!(out, ",\"has_ended\":{}}}", reader.has_ended)?;
    }
    writeln!(out, "]}}")
}
