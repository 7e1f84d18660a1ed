//! `cxx`: the C++ headers, beside C and beside what C++ programs use instead.
//!
//! | row | what |
//! |---|---|
//! | `retire` | a new object of 64 bytes, written to and retired |
//! | `readers` | an empty section |
//! | `list`, `map`, `unordered_map` | one of 1,000 nodes, chosen at random, replaced by a new one |
//!
//! `c` is `sheaves_free_rcu`, or the inlined readers of `sheaves.h`; `c-call` is
//! `sheaves_call_rcu`, whose function frees. `rcu_retire` has `std::default_delete`, in a
//! program with `<sheaves/new.hpp>`. Containers have `sheaves::allocator`, the default resource of
//! `std::pmr` set to a `sheaves::memory_resource`, or `std::allocator` with `<sheaves/new.hpp>`
//! (`std`). `mimalloc` is `std::allocator` in a program with mimalloc's operators, `glibc` an
//! allocator that calls `malloc` and `free`. `liburcu-memb` has objects from mimalloc, and is
//! called from C++: Debian has no other package of RCU for C++.
//!
//! Contenders are processes of two programs, which are compiled for that: ours and that of the
//! peers. Containers differ in their allocator alone, and the libraries are linked statically,
//! liburcu excepted. A sample is 20 ms; what was retired in it is freed behind it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::harness::{Case, Contender, Effort, Failure, Judge, Row, Sampler, Table, child};

/// A C++ retirement to one in C, with the allocation and the write that both have.
const RETIRE_TO_C: f64 = 1.3;
/// Containers to the same on mimalloc.
const TO_MIMALLOC: f64 = 1.0;

const ON_SHEAVES: [&str; 3] = ["allocator", "pmr", "std"];

pub(crate) static TABLE: Table = Table {
    ours: &["c", "c-call", "rcu_retire", "rcu_obj_base", "rcu_domain", "allocator", "pmr", "std"],
    effort: Effort::WAITS,
    ..Table::new(
        "cxx",
        "C++: retire, readers, list, map, unordered_map; needs libsheaves.a",
        |_| ["retire", "readers", "list", "map", "unordered_map"].map(case).into(),
    )
};

fn case(name: &'static str) -> Case {
    let (ours, peers): (&[_], &[_]) = match name {
        "retire" => (&["c", "rcu_retire", "c-call", "rcu_obj_base"], &["liburcu-memb"]),
        "readers" => (&["c", "rcu_domain"], &["liburcu-memb"]),
        _ => (&ON_SHEAVES, &["mimalloc", "glibc"]),
    };
    let peers = if cfg!(feature = "peers") { peers } else { &[] };
    let contender = |of: &&'static str| {
        let of = *of;
        Contender::new(of, move || sampler(name, of))
    };
    let row = Row::new(format!("cxx/{name}")).compared(move |row| compare(row, name));
    Case::new(vec![row], ours.iter().chain(peers).map(contender).collect())
}

fn compare(row: &mut Judge<'_>, name: &str) {
    match name {
        "retire" => {
            row.compare("rcu_retire", "c", Some(RETIRE_TO_C));
            row.compare("rcu_obj_base", "c-call", None);
            row.compare("rcu_retire", "liburcu-memb", None);
            row.compare("rcu_obj_base", "liburcu-memb", None);
        }
        "readers" => {
            row.compare("rcu_domain", "c", None);
            row.compare("rcu_domain", "liburcu-memb", None);
        }
        _ => {
            for own in ON_SHEAVES {
                row.compare(own, "mimalloc", (own != "std").then_some(TO_MIMALLOC));
                row.compare(own, "glibc", None);
            }
        }
    }
}

fn sampler(row: &str, contender: &str) -> Result<Sampler, Failure> {
    type Program = OnceLock<Result<PathBuf, String>>;
    static OURS: Program = OnceLock::new();
    static PEERS: Program = OnceLock::new();
    let program = if TABLE.ours.contains(&contender) {
        OURS.get_or_init(compile_ours)
    } else {
        PEERS.get_or_init(compile_peers)
    };
    let program = program.as_ref().map_err(Failure::run)?;
    child::answering(Command::new(program).args([row, contender]))
}

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tables/cxx");

fn compiler() -> Command {
    let mut command = Command::new("c++");
    command.args(["-std=c++17", "-O2", "-pthread"]).current_dir(SOURCES);
    command
}

/// Compiles our program beside the bench, as users compile theirs.
fn compile_ours() -> Result<PathBuf, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let (library, program) = (bench.with_file_name("libsheaves.a"), bench.with_extension("cxx"));
    if !library.exists() {
        let build = "cargo build --release -p sheaves-capi";
        return Err(format!("no {} (`{build}` makes one)", library.display()));
    }
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../sheaves-capi/include");
    let mut command = compiler();
    command.args(["-I", include, "sheaves.cpp"]).arg(library).args(["-ldl", "-lm"]);
    run(command.arg("-o").arg(&program)).map(|()| program)
}

fn compile_peers() -> Result<PathBuf, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let (program, object) = (bench.with_extension("peers"), bench.with_extension("mimalloc.o"));
    let include = option_env!("SHEAVES_MIMALLOC").ok_or("no mimalloc")?;
    compile_mimalloc(include, &object)?;
    let mut command = compiler();
    command.args(["-I", include, "peers.cpp"]).arg(object).arg("-lurcu-memb");
    run(command.arg("-o").arg(&program)).map(|()| program)
}

/// As `libmimalloc-sys` does in release.
fn compile_mimalloc(include: &str, object: &Path) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.args(["-O3", "-DNDEBUG", "-DMI_DEBUG=0", "-DMI_BUILD_RELEASE", "-I", include]);
    command.args(["-fPIC", "-ftls-model=initial-exec", "-c"]);
    run(command.arg(format!("{include}/../src/static.c")).arg("-o").arg(object))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_cxx.rs"]
mod tests;
