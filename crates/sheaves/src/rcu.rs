//! Read-copy-update: readers without locks, and updaters that wait for a grace period.
//!
//! ```
//! use sheaves::rcu::{self, RcuCell};
//!
//! let config = RcuCell::new(String::from("slow"));
//! assert_eq!(config.load(&rcu::read()), "slow");
//! // Replaces the value; dropping the old one waits for a grace period.
//! drop(config.store(String::from("fast")));
//! assert_eq!(config.load(&rcu::read()), "fast");
//! ```

pub use crate::rcu_box::RcuBox;
pub use sheaves_rcu::{
    Cookie, Expedite, Finished, Guard, InsideReader, Projection, RcuCell, RcuOption, Retired, Srcu,
    SrcuGuard, Statistics, defer, end_startup, enter_idle, expedite, is_reading, raw, read, stall,
    statistics, synchronize, synchronize_expedited,
};
