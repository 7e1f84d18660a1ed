//! The mistakes that a run can make.

/// Mistakes that a run can make, to show that it would find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// Release at the end of a grace period also the waiters that came in its middle.
    Published,
    /// Have the kernel say that it made all threads fence, and not do it. Lasts for the process.
    Membarrier,
}
