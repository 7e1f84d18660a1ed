//! The programs under sanitizers, and under valgrind where it is installed.

use core::time::Duration;
use std::path::Path;

use crate::{Link, compile, has, here, run, run_ok};

const LIMIT: Duration = Duration::from_secs(180);
const EXAMPLES: [&str; 7] = ["cache", "calls", "memory", "percpu", "rcu", "srcu", "statistics"];

#[test]
fn sanitizers_find_nothing() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    for name in EXAMPLES {
        let program = compile("gcc", &format!("examples/{name}.c"), &flags, Link::Shared);
        run_ok(&program, &[], &[], LIMIT);
    }
    let include = format!("-I{}", here("include/sheaves-urcu").display());
    let flags = [flags[0], flags[1], &include];
    let program = compile("gcc", "tests/urcu/flavors.c", &flags, Link::Shared);
    run_ok(&program, &[], &[], LIMIT);
}

#[test]
fn valgrind_finds_no_error_and_no_leak() {
    if !has("valgrind") {
        eprintln!("skipped: there is no valgrind");
        return;
    }
    for name in EXAMPLES {
        let program = compile("gcc", &format!("examples/{name}.c"), &["-DVALGRIND"], Link::Shared);
        // What glibc keeps for a thread that still runs at the end counts as possibly lost.
        let leaks = ["--leak-check=full", "--errors-for-leak-kinds=definite"];
        let mut args = vec!["-q", "--error-exitcode=9"];
        args.extend(leaks);
        args.push(program.to_str().unwrap());
        run_ok(Path::new("valgrind"), &args, &[("SHEAVES_ENGINE", "portable")], LIMIT);
    }
}

#[test]
fn cost_of_readers_is_told() {
    let include = format!("-I{}", here("include/sheaves-urcu").display());
    let program = compile("gcc", "tests/urcu/read_cost.c", &[&include], Link::Shared);
    let output = run(&program, &["1"], &[], LIMIT);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.trim().parse::<f64>().is_ok_and(|ns| ns > 0.0), "{text}");
}
