//! The preload object (being built).
