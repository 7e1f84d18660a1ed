//! The probes: they are as described, the kernel finds them, and debuggers read their arguments.

use core::ffi::c_long;
use core::time::Duration;
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Read as _, Write as _};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::c_programs::run_within;
use crate::notes::{check_described, notes};
use crate::{compile, object, on_object};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_object_has_the_described_probes() {
    check_described(object());
}

/// Counts how often a process passes a place of a file from now on.
fn count_passes(process: u32, file: &Path, offset: u64) -> Result<File, Error> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    // The beginning of `struct perf_event_attr`: type and size, then, last, path and place.
    let mut attributes = [0_u64; 9];
    attributes[0] = kind.trim().parse::<u64>().unwrap() | (size_of_val(&attributes) as u64) << 32;
    attributes[7] = path.as_ptr().addr() as u64;
    attributes[8] = offset;
    let (any_cpu, no_group, no_flags): (c_long, c_long, c_long) = (-1, -1, 0);
    let (call, attributes) = (libc::SYS_perf_event_open, attributes.as_ptr());
    // SAFETY: the attributes say how long they are, and the path in them is a C string.
    let descriptor =
        unsafe { libc::syscall(call, attributes, process, any_cpu, no_group, no_flags) };
    match i32::try_from(descriptor) {
        // SAFETY: the kernel has just given us the descriptor.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { File::from_raw_fd(descriptor) }),
        _ => Err(Error::last_os_error()),
    }
}

/// As `perf stat` does, in a process that is already running.
#[test]
fn the_kernel_counts_probes() {
    // The blocks of the program fill 35 slabs.
    const LEAST: [(&str, u64); 4] =
        [("refill", 35), ("slab_made", 35), ("large_alloc", 1), ("large_free", 1)];
    let program = compile("gcc", "probes.c");
    let mut command = on_object(&program, &[], &[]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut counters = Vec::new();
    for note in notes(object()) {
        let name = note.name.trim_start_matches("sheaves:").to_owned();
        if LEAST.iter().any(|(wanted, _)| *wanted == name) {
            let counter = count_passes(child.id(), object(), note.offset(object()));
            counters.push(counter.map(|counter| (name, counter)));
        }
    }
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let counters = match counters.into_iter().collect::<Result<Vec<_>, Error>>() {
        Ok(counters) => counters,
        Err(error) => {
            println!("the kernel does not count probes here: {error}");
            return;
        }
    };
    for (wanted, least) in LEAST {
        let mut passes = 0;
        for (_, counter) in counters.iter().filter(|(name, _)| name == wanted) {
            let mut bytes = [0; 8];
            (&*counter).read_exact(&mut bytes).unwrap();
            passes += u64::from_ne_bytes(bytes);
        }
        assert!(passes >= least, "{wanted}: {passes}");
    }
}

/// The numbers in lines that begin with a word.
fn lines_of(text: &str, word: &str) -> Vec<Vec<u64>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    };
    lines.map(|line| line.split_whitespace().map(number).collect()).collect()
}

#[test]
fn gdb_reads_the_arguments() {
    if Command::new("gdb").arg("--version").output().is_err() {
        println!("gdb is not here");
        return;
    }
    let program = compile("gcc", "probes.c");
    let mut script = format!(
        "set startup-with-shell off\nset environment LD_PRELOAD {}\nbreak probes.c:main\nrun\n",
        object().display()
    );
    for (probe, form, count) in [
        ("slab_made", "%lu %lu %lu", 3),
        ("refill", "%lu %lu %lu %lu", 4),
        ("large_alloc", "0x%lx %lu", 2),
    ] {
        let arguments = ["$_probe_arg0", "$_probe_arg1", "$_probe_arg2", "$_probe_arg3"];
        let arguments = arguments[..count].join(",");
        script += &format!(
            "break -probe-stap sheaves:{probe}\ncommands\nsilent\n\
             printf \"{probe} {form}\\n\",{arguments}\ncontinue\nend\n"
        );
    }
    let file = program.with_extension("gdb");
    std::fs::write(&file, script + "continue\n").unwrap();
    let mut gdb = Command::new("gdb");
    gdb.args(["-batch", "-nx", "-x"]).arg(file).arg(&program);
    let output = run_within(MINUTE, &mut gdb);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ptrace: Operation not permitted") {
        println!("gdb may not trace here");
        return;
    }
    let slabs = lines_of(&text, "slab_made");
    assert!(slabs.len() >= 35, "{text}{errors}");
    for slab in slabs {
        let [cache, address, bytes] = slab[..] else { panic!("{slab:?}") };
        assert!(cache != 0 && address != 0 && address % bytes == 0 && bytes >= 64 << 10);
    }
    let refills = lines_of(&text, "refill");
    assert!(refills.iter().all(|refill| refill[1] == refill[2] && refill[2] < 128), "{text}");
    // The smallest size class for blocks of 100 bytes.
    assert!(refills.iter().any(|refill| refill[3] == 112), "{text}");
    assert_eq!(lines_of(&text, "large_alloc"), lines_of(&text, "large"), "{text}");
}
