//! The greeting of the preload object: proof that it runs inside a program.
//!
//! With `SHEAVES_STATS=start` the constructor of the preload object writes one line on standard
//! error:
//!
//! `sheaves: NAME runs on Sheaves VERSION (engine ENGINE, slots by SLOT, pid PID)`
//!
//! or, where `malloc` and `free` are not those of the object, a line that says whose they are.

use core::str::FromStr;

/// Asks for a greeting.
pub(crate) const GREET: (&str, &str) = ("SHEAVES_STATS", "start");

/// What the preload object said about itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hello {
    /// Version of the preload object.
    pub(crate) version: String,
    /// `rseq` or `portable`.
    pub(crate) engine: String,
    /// Where slot numbers come from: `cid`, `cpu` or `virtual`.
    pub(crate) slot: String,
}

impl FromStr for Hello {
    type Err = ();

    fn from_str(line: &str) -> Result<Self, ()> {
        let (_, said) = line.rsplit_once(" runs on Sheaves ").ok_or(())?;
        let (version, facts) = said.split_once(" (").ok_or(())?;
        let (facts, _) = facts.split_once(')').ok_or(())?;
        // Unknown facts come from a newer preload object and are skipped.
        let fact = |name: &str| facts.split(", ").find_map(|fact| fact.strip_prefix(name));
        let (engine, slot) = (fact("engine ").ok_or(())?, fact("slots by ").ok_or(())?);
        Ok(Self { version: version.to_owned(), engine: engine.to_owned(), slot: slot.to_owned() })
    }
}

#[cfg(test)]
#[path = "../tests/unit/hello.rs"]
mod tests;
