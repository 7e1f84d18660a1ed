//! Starts this program under the preload object and reads from its greeting which engine it uses.

use core::time::Duration;
use std::env;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use super::platform::KernelRseq;
use super::report::Check;
use crate::hello::{GREET, Hello};
use crate::output::pass_on;
use crate::preload::{LIST_VARIABLE, Preload};
use crate::run::{inspect, resolve};

/// What is started to greet.
const STARTED: &str = "sheaves --version";
/// It is killed after this time.
const LIMIT: Duration = Duration::from_secs(10);

/// Checks of the preload object and of the engine that it chooses.
pub(crate) fn checks(option: Option<&Path>, kernel: &KernelRseq) -> Vec<Check> {
    let preload = match Preload::find(option) {
        Ok(preload) => preload,
        Err(problem) => {
            return vec![Check::fail("preload", problem, "`sheaves run` cannot work without it")];
        }
    };
    let object = preload.path.display();
    match greeting(&preload) {
        Ok(hello) => {
            let found = format!("{object} (version {}) loads", hello.version);
            let own = env!("CARGO_PKG_VERSION");
            let version = if hello.version == own {
                Check::ok("preload", found)
            } else {
                let advice = format!("this command has version {own}; install both from one build");
                Check::warn("preload", found, advice)
            };
            vec![version, engine(&hello, kernel)]
        }
        Err(problem) => vec![Check::fail(
            "preload",
            format!("{object}: {problem}"),
            "run the dynamic linker with messages: LD_DEBUG=libs LD_PRELOAD=... sheaves --version",
        )],
    }
}

/// Starts this program with the object, and reads the greeting. Other programs may be static.
fn greeting(preload: &Preload) -> Result<Hello, String> {
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(own);
    command.arg("--version");
    command.env(LIST_VARIABLE, preload.list(env::var_os(LIST_VARIABLE).as_deref()));
    command.env(GREET.0, GREET.1);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child =
        command.spawn().map_err(|error| format!("cannot start `{STARTED}`: {error}"))?;
    // It waits when the pipe is full, as with LD_DEBUG=all.
    let mut errors = child.stderr.take();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        errors.as_mut().map_or(Ok(0), |errors| errors.read_to_end(&mut bytes)).map(|_| bytes)
    });
    let end = Instant::now() + LIMIT;
    while child.try_wait().is_ok_and(|status| status.is_none()) {
        if Instant::now() > end {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let errors = reader.join().map_err(|_| "no thread reads what it says".to_owned())?;
    let errors = errors.map_err(|error| error.to_string())?;
    let (mut greeting, mut problem) = (None, None);
    for line in String::from_utf8_lossy(&errors).lines() {
        match line.parse::<Hello>() {
            Ok(hello) => greeting = Some(hello),
            Err(()) if line.contains(" does not run on Sheaves ") => {
                problem = Some(line.to_owned());
            }
            // What is wrong with an option, or why the object was not loaded.
            Err(()) => pass_on(line),
        }
    }
    let unknown = || format!("`{STARTED}` does not run on it ({status})");
    greeting.ok_or_else(|| problem.unwrap_or_else(unknown))
}

/// Which engine is in use, and why.
fn engine(hello: &Hello, kernel: &KernelRseq) -> Check {
    let found = format!("{}, slots by {}", hello.engine, hello.slot);
    let asked = env::var_os("SHEAVES_ENGINE").unwrap_or_default();
    match (hello.engine.as_str(), hello.slot.as_str()) {
        ("rseq", "cid") => Check::ok("engine", found),
        ("rseq", _) if kernel.has_mm_cid() && asked == "rseq-cpu" => {
            Check::ok("engine", format!("{found} (set by SHEAVES_ENGINE)"))
        }
        ("rseq", _) => Check::ok("engine", format!("{found} (the kernel has no mm_cid)")),
        (_, _) if asked == "portable" => {
            Check::warn("engine", found, "SHEAVES_ENGINE selects it; unset it to get the fast one")
        }
        _ => Check::warn(
            "engine",
            found,
            "rseq is unavailable (seccomp, emulation, old kernel): correct, but slower",
        ),
    }
}

/// Whether a given program can run on Sheaves.
pub(crate) fn program(name: &OsStr, option: Option<&Path>) -> Check {
    let examined = Preload::find(option).and_then(|preload| {
        let path = resolve::resolve(name).map_err(|refusal| refusal.line)?;
        inspect::inspect(&path, &preload).map_err(|refusal| refusal.line)
    });
    match examined {
        Err(line) => Check::fail("program", line, "`sheaves run` refuses it"),
        Ok(image) if image.warnings.is_empty() => {
            Check::ok("program", format!("{} can run on Sheaves", image.path.display()))
        }
        Ok(image) => {
            let found: Vec<_> = image.warnings.iter().map(|one| one.found.as_str()).collect();
            let mut advice: Vec<_> = image.warnings.iter().map(|one| one.advice).collect();
            advice.dedup();
            Check::warn("program", found.join("; "), advice.join("; "))
        }
    }
}
