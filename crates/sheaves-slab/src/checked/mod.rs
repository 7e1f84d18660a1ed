//! What samples, debug and hardened caches do differently at an allocation or a free; and where
//! what comes back from slots and grace periods goes, by the mode of its cache.

pub(crate) mod debug;
pub(crate) mod incoming;
pub(crate) mod quarantine;
pub(crate) mod samples;
