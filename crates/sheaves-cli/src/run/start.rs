//! Becomes the program: its process number, signals and exit status are those of this command.
//!
//! Nothing of this command is left, so everything that it has to say of the program is said
//! before. What can be known only afterwards, the preload object says.

use alloc::ffi::CString;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use nix::unistd::execve;

use super::inherited;
use crate::command_line::{RunOptions, StatsFormat};
use crate::hello::GREET;
use crate::preload::{LIST_VARIABLE, Preload};

/// The program to start.
#[derive(Debug)]
pub(super) struct Start<'a> {
    /// The file that is executed.
    path: &'a Path,
    /// The arguments; the first is the name that the program sees.
    arguments: Vec<&'a OsStr>,
    /// Variables that are set on top of our own environment.
    variables: Vec<(&'static str, OsString)>,
}

impl<'a> Start<'a> {
    /// The program in the file `path`, with its arguments as typed.
    pub(super) fn new(options: &'a RunOptions, path: &'a Path, through_shell: bool) -> Self {
        let typed = options.program.iter().map(OsString::as_os_str);
        let (path, arguments) = if through_shell {
            let shell = [OsStr::new("sh"), path.as_os_str()];
            (Path::new("/bin/sh"), shell.into_iter().chain(typed.skip(1)).collect())
        } else {
            (path, typed.collect())
        };
        Self { path, arguments, variables: Vec::new() }
    }

    /// Sets the variables by which the preload object is loaded and told its options.
    pub(super) fn set(&mut self, preload: &Preload, options: &RunOptions, stats: Option<&Path>) {
        let mut set = |name, value| self.variables.push((name, value));
        set(LIST_VARIABLE, preload.list(env::var_os(LIST_VARIABLE).as_deref()));
        match options.stats.or(stats.map(|_| StatsFormat::Text)) {
            Some(StatsFormat::Text) => set("SHEAVES_STATS", "1".into()),
            Some(StatsFormat::Json) => set("SHEAVES_STATS", "json".into()),
            None => {}
        }
        if let Some(path) = stats {
            set("SHEAVES_STATS_FILE", path.into());
        }
        if options.harden {
            set("SHEAVES_HARDEN", "1".into());
        }
        if options.verbose {
            set(GREET.0, GREET.1.into());
        }
    }

    /// Becomes the program. Returns only why that failed.
    pub(super) fn exec(&self) -> io::Error {
        let exec = || -> io::Result<_> {
            let path = c_string(self.path.as_os_str())?;
            let arguments: Vec<CString> = self
                .arguments
                .iter()
                .map(|argument| c_string(argument))
                .collect::<Result<_, _>>()?;
            let environment = self.environment()?;
            inherited::restore();
            Ok(execve(&path, &arguments, &environment)?)
        };
        let Err(error) = exec();
        error
    }

    /// Our environment; the variables of the start replace those of the same name.
    fn environment(&self) -> io::Result<Vec<CString>> {
        let set = |name: &OsStr| self.variables.iter().any(|(ours, _)| *ours == name);
        let kept = env::vars_os().filter(|(name, _)| !set(name));
        let ours = self.variables.iter().map(|(name, value)| (OsString::from(name), value.clone()));
        kept.chain(ours)
            .map(|(mut entry, value)| {
                entry.push("=");
                entry.push(value);
                c_string(&entry)
            })
            .collect()
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    Ok(CString::new(text.as_bytes())?)
}
