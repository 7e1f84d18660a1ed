//! C and C++ programs on the preload object.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::c_programs::run_within;
use crate::{check, compile, compile_as, on_object, run_silent};

type Variables = &'static [(&'static str, &'static str)];

const CONFIGURATIONS: [Variables; 5] = [
    &[],
    &[("SHEAVES_ENGINE", "rseq-cpu")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")],
    &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    &[("SHEAVES_DEBUG", "1")],
];

const MINUTE: Duration = Duration::from_secs(60);
const FORKS_DEFAULT: u64 = 500;

/// Compiled once, for the two tests that run it.
fn family() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("gcc", "family.c"))
}

#[test]
fn c_functions_keep_their_contracts() {
    for variables in CONFIGURATIONS {
        run_silent(family(), &[], variables, MINUTE);
    }
    for level in ["1", "2"] {
        run_silent(family(), &[], &[("SHEAVES_HARDEN", level)], MINUTE);
    }
}

/// As in qemu's user mode before 7.1.
#[test]
fn calloc_gives_zeros_where_advice_does_nothing() {
    let program = compile("gcc", "no_advice.c");
    for variables in CONFIGURATIONS.iter().chain(&[HARDENED]) {
        run_silent(&program, &[], variables, MINUTE);
    }
}

#[test]
fn malloc_info_and_stats_describe_this_heap() {
    let output = run_within(MINUTE, &mut on_object(family(), &["info"], &[]));
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(text.starts_with("<malloc version=\"sheaves-1\">"), "{text}");
    assert!(text.trim_end().ends_with("</malloc>"), "{text}");
    assert!(errors.starts_with("sheaves statistics: pid "), "{errors}");
}

#[test]
fn threads_may_allocate_while_they_end() {
    let program = compile("gcc", "thread_end.c");
    for variables in CONFIGURATIONS {
        run_silent(&program, &[], variables, MINUTE);
    }
}

#[test]
fn library_has_a_thread_while_there_is_something_to_do() {
    // Its pthread_create is the one that the preload object calls.
    let program = compile_as("gcc", "library_thread.c", &["-rdynamic"]);
    for kind in ["small", "single", "shift", "idle", "sandbox", "child", "refused"] {
        // What is unused goes at once: the limit of `idle` is that of a thread without work.
        let decay = if kind == "idle" { &[("SHEAVES_DECAY_MS", "100")][..] } else { &[] };
        for variables in &CONFIGURATIONS[..4] {
            run_silent(&program, &[kind], &[variables, decay].concat(), MINUTE);
        }
    }
}

#[test]
fn threads_that_have_changed_cpus_come_to_write_to_different_lines() {
    let program = compile("gcc", "lines.c");
    // Blocks of one size class, and of all in which blocks share lines.
    for bytes_max in ["16", "112"] {
        for variables in &CONFIGURATIONS[..4] {
            run_silent(&program, &[bytes_max], variables, 3 * MINUTE);
        }
    }
}

#[test]
fn large_blocks_that_are_replaced_cost_no_page_faults() {
    // What is unused for a time goes back: not in the time of this test.
    run_silent(&compile("gcc", "large.c"), &[], &[("SHEAVES_DECAY_MS", "600000")], MINUTE);
}

#[test]
fn memory_that_is_filled_again_costs_no_page_faults() {
    let program = compile("gcc", "phases.c");
    for variables in &CONFIGURATIONS[..4] {
        // As above.
        let variables = [variables, &[("SHEAVES_DECAY_MS", "600000")][..]].concat();
        for kind in ["small", "large"] {
            run_silent(&program, &[kind], &variables, MINUTE);
        }
    }
}

/// A small file size, address space that blocks have left unused, no mapping left.
#[test]
fn programs_run_at_the_limits_of_the_system() {
    let program = compile("gcc", "limits.c");
    for which in ["file-size", "idle", "heap", "growth", "mappings"] {
        // Not in debug mode, where freed blocks stay inaccessible.
        for variables in &CONFIGURATIONS[..4] {
            run_silent(&program, &[which], variables, MINUTE);
        }
    }
}

/// It reserves no address space that it does not use, so a limit that is set later leaves the rest.
#[test]
fn limits_on_the_address_space_may_be_set_later() {
    let program = compile("gcc", "address_space.c");
    for variables in CONFIGURATIONS {
        run_silent(&program, &[], variables, MINUTE);
    }
    if Command::new("python3").arg("--version").output().is_err() {
        println!("python3 is not here");
        return;
    }
    let text = "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 30, 1 << 30)); \
                len(bytearray(100 << 20))";
    run_silent(Path::new("python3"), &["-c", text], &[("PYTHONMALLOC", "malloc")], MINUTE);
}

/// Data, address space and locked memory: with little more than nothing, and with some MiB. What is
/// left of them serves blocks; an attempt that fails leaves nothing behind; and once the limit is
/// raised, there is more.
#[test]
fn limits_that_are_there_first_leave_what_they_allow() {
    let program = compile("gcc", "room.c");
    for variables in &CONFIGURATIONS[..4] {
        // The control page is shared memory, and comes at a tick.
        for limit in ["data", "as", "memlock"] {
            for (left, least) in [(20, 0), (110, 0), (170, 0), (3000, 1200), (10_000, 6500)] {
                let args = [limit, &left.to_string(), &least.to_string()];
                run_silent(&program, &args, variables, MINUTE);
            }
        }
    }
}

#[test]
fn the_first_block_takes_little_of_the_data_limit() {
    let program = compile("gcc", "room.c");
    // Debug mode notes each free.
    for variables in &CONFIGURATIONS[..4] {
        run_silent(&program, &["none"], variables, MINUTE);
    }
}

/// Before the heap starts, and after that.
#[test]
fn small_blocks_are_served_with_all_mappings_used_up() {
    let program = compile("gcc", "room.c");
    for variables in &CONFIGURATIONS[..4] {
        run_silent(&program, &["mappings"], variables, MINUTE);
    }
}

const HARDENED: Variables = &[("SHEAVES_HARDEN", "1")];

/// In place; in debug mode it moves.
#[test]
fn blocks_that_are_shortened_return_their_ends() {
    let program = compile("gcc", "shorten.c");
    for variables in CONFIGURATIONS[..4].iter().chain(&[HARDENED]) {
        run_silent(&program, &[], variables, MINUTE);
    }
}

/// Each large block of a hardened process is between two inaccessible pages.
#[test]
fn many_large_blocks_leave_mappings_for_others() {
    run_silent(&compile("gcc", "limits.c"), &["many"], HARDENED, MINUTE);
}

/// Before the program can be killed for it.
#[test]
fn profile_is_written_when_memory_is_short() {
    let program = compile("gcc", "short.c");
    for (why, limit) in [("limit", "64M"), ("failure", "1T")] {
        for variables in &CONFIGURATIONS[..4] {
            let file = tempfile(why);
            let _ = std::fs::remove_file(&file);
            let own = [
                ("SHEAVES_PROF", "65536"),
                ("SHEAVES_PROF_FILE", file.to_str().unwrap()),
                ("SHEAVES_LIMIT", limit),
            ];
            let mut command = on_object(&program, &[why], &[*variables, &own].concat());
            let output = run_within(MINUTE, &mut command);
            check(&command, &output, |text, errors| {
                text.is_empty() && (why == "failure" || errors.lines().count() == 1)
            });
            std::fs::remove_file(&file).unwrap();
        }
    }
}

fn tempfile(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("profile-{name}"))
}

#[test]
fn c_plus_plus_operators_keep_their_contracts() {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("g++ is not here");
        return;
    }
    let program = compile("g++", "operators.cpp");
    for variables in CONFIGURATIONS {
        run_silent(&program, &[], variables, MINUTE);
    }
}

/// A program in C may have the C++ runtime from a module alone, as Python has.
#[test]
fn operators_throw_in_a_module_of_a_program_without_the_runtime() {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("g++ is not here");
        return;
    }
    let program = compile_as("gcc", "module.c", &["-D_GNU_SOURCE"]);
    let module = compile_as("g++", "module.cpp", &["-shared", "-fPIC"]);
    let module = module.to_str().expect("a name in UTF-8");
    for variables in CONFIGURATIONS {
        run_silent(&program, &[module], variables, MINUTE);
    }
}

/// An object before ours that is mapped below the address at which it was linked.
#[test]
fn an_object_that_was_linked_at_a_high_address_is_loaded() {
    let high = "-Wl,-Ttext-segment=0x900000000000";
    let module = compile_as("gcc", "high.c", &["-shared", "-fPIC", high]);
    let mut command = on_object(Path::new("/bin/true"), &[], &[]);
    let both = format!("{} {}", module.display(), crate::object().display());
    let output = run_within(MINUTE, command.env("LD_PRELOAD", both));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Stubs of a program are no operators of its own.
#[test]
fn sizes_are_checked_in_a_program_that_takes_addresses_of_operators() {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("g++ is not here");
        return;
    }
    for hash in ["-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv"] {
        let program = compile_as("g++", "stub.cpp", &["-no-pie", "-fno-pie", hash]);
        let mut command = on_object(&program, &[], &[("SHEAVES_HARDEN", "1")]);
        let output = run_within(MINUTE, &mut command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains("another size"), "{output:?}");
    }
}

#[test]
fn operators_that_a_program_replaces_serve_its_other_forms() {
    if Command::new("g++").arg("--version").output().is_err() {
        println!("g++ is not here");
        return;
    }
    let module = compile_as("g++", "module.cpp", &["-shared", "-fPIC", "-std=c++17"]);
    let module = module.to_str().expect("a name in UTF-8");
    let variants: [&[&str]; 5] = [
        &["-DPLAIN"],
        &["-DARRAY"],
        &["-DALIGNED"],
        &["-DPLAIN", "-DARRAY", "-DALIGNED"],
        // Without the hash table by which symbols are looked up.
        &["-DPLAIN", "-Wl,--hash-style=sysv"],
    ];
    for flags in variants {
        // gcc cannot know that `checked` matches the pairs.
        let flags = [&["-std=c++17", "-Wno-mismatched-new-delete"], flags].concat();
        let program = compile_as("g++", "replaced.cpp", &flags);
        for variables in CONFIGURATIONS {
            run_silent(&program, &[module], variables, MINUTE);
        }
    }
}

#[test]
fn a_program_with_its_own_malloc_keeps_it_in_reallocarray() {
    let program = compile_as("gcc", "own.c", &["-fno-builtin"]);
    for variables in CONFIGURATIONS {
        run_silent(&program, &[], variables, MINUTE);
    }
}

/// Runs `1 / share` of the forks, while 8 threads allocate; the children allocate and free.
fn forks(share: u64, variables: &[(&str, &str)]) {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| compile("gcc", "fork.c"));
    let count = std::env::var("SHEAVES_FORKS").ok().map(|text| text.parse().expect("a number"));
    let count: u64 = count.unwrap_or(FORKS_DEFAULT).div_ceil(share);
    let limit = MINUTE + Duration::from_millis(200 * count);
    run_silent(program, &[&count.to_string()], variables, limit);
}

#[test]
fn forks_on_rseq() {
    forks(1, &[]);
}

#[test]
fn forks_on_rseq_by_cpu() {
    forks(10, &[("SHEAVES_ENGINE", "rseq-cpu")]);
}

#[test]
fn forks_on_two_virtual_slots() {
    forks(2, &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")]);
}

#[test]
fn forks_on_64_virtual_slots() {
    forks(2, &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")]);
}

#[test]
fn forks_in_debug_mode() {
    forks(10, &[("SHEAVES_DEBUG", "1")]);
}
