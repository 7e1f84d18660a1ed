//! Objects that a program loads with `RTLD_DEEPBIND`.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::c_programs::compile_to;
use crate::run_silent;

const LIMIT: Duration = Duration::from_secs(60);

/// The program, the library that it is linked to, and the library that the latter loads, in folders
/// of their own.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deepbind");
        let (outer, inner) = (place.join("outer"), place.join("outer/inner"));
        std::fs::create_dir_all(&inner).unwrap();
        let compile = |source: &str, output: PathBuf, flags: &[&str]| {
            let mut command = Command::new("gcc");
            command.args(["-O1", "-g", "-Wall", "-Werror", "-fno-builtin"]);
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload").join(source));
            command.args(flags);
            compile_to(&output, &mut command);
            output
        };
        compile("deep_inner.c", inner.join("libdeep_inner.so"), &["-fPIC", "-shared"]);
        let flags =
            ["-fPIC", "-shared", "-ldl", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/inner"];
        let library = compile("deep_outer.c", outer.join("libdeep_outer.so"), &flags);
        let flags = [library.to_str().unwrap(), "-Wl,-rpath,$ORIGIN/outer"];
        compile("deep_program.c", place.join("program"), &flags)
    })
}

#[test]
fn blocks_pass_to_objects_that_were_loaded_with_deepbind() {
    run_silent(program(), &["cleared"], &[], LIMIT);
    run_silent(program(), &["cleared"], &[("SHEAVES_DEEPBIND", "0")], LIMIT);
    run_silent(program(), &["cleared"], &[("SHEAVES_DEBUG", "1")], LIMIT);
    let portable = [("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")];
    run_silent(program(), &["cleared"], &portable, LIMIT);
}

#[test]
fn deepbind_is_left_alone_on_demand() {
    run_silent(program(), &["kept"], &[("SHEAVES_DEEPBIND", "1")], LIMIT);
}
