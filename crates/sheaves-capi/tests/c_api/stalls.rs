//! The report of a stalled reader names the functions on its stack.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::{Link, compile};

#[test]
fn functions_of_a_stalled_reader_are_named() {
    let flags = ["-std=gnu99", "-rdynamic", "-fno-omit-frame-pointer"];
    for link in [Link::Shared, Link::Archive] {
        let program = compile("gcc", "tests/c_api/stalled.c", &flags, link);
        let mut command = Command::new(program);
        command.env("SHEAVES_RCU_STALL_MS", "100").stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let wanted = "nanosleep, called by sleeping_reader, reading_thread, program+0x";
        assert!(line.contains(" ms") && line.contains(wanted), "{line}");
    }
}
