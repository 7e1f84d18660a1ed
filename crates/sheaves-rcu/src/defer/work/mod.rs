//! What reclaims it, and when. Nothing here is called by programs.
//!
//! The reclaimer is a thread, the driver a role. Each of these may become the driver:
//!
//! | thread | if another one is the driver | reclaims |
//! |---|---|---|
//! | the reclaimer | it waits | everything |
//! | in `barrier`, where no reclaimer answers | it waits | everything |
//! | in `reclaim` | it does nothing | what is ready |
//! | in `flush` without a reclaimer | it does nothing | nothing: it seals all |
//! | in `before_sandbox` | it seals slots | nothing: it seals all |
//! | that defers under hard pressure | it does nothing | what is ready and needs no callback |
//!
//! Others ask the reclaimer. A request of a row with "starts" starts it where there is none:
//!
//! | call | starts | the reclaimer |
//! |---|---|---|
//! | `arm_age` | yes | has a round when the age bound is over |
//! | `flush`, `barrier`: [`bell::FLUSH`] | `flush` | has a round now |
//! | `wake_if_pressed`, `start_batch`: [`bell::READY`] | yes | reclaims what is sealed |
//! | a callback that defers: [`bell::READY`] | no | the same |
//! | `request_membarrier`: [`bell::READY`] | no | the same, and so makes the membarrier |
//! | `request_sweep`: [`bell::SWEEP`] | no | calls `sweep` of the layers above |
//! | `arm_keeper` | if `may_start` | is the keeper, at intervals |
//! | `leave_to_reclaimer` | if `may_start` | answers the tool that asks |
//! | a poll of a future | yes | waits for its grace period, and wakes it |
//!
//! From the bottom up: `watch` (callbacks that take long); `bell` (requests of the reclaimer);
//! `follow` (what callbacks defer); `layers`, `calls`, `channel` (what is reclaimed); `keeper`
//! (unused memory); `driver`, `domains`, `round` (how); `futures`, `reclaimer`, `requests` (when).

pub(crate) mod bell;
pub(crate) mod calls;
pub(crate) mod channel;
pub(crate) mod domains;
pub(crate) mod driver;
pub(crate) mod follow;
pub(crate) mod futures;
pub(crate) mod keeper;
pub(crate) mod layers;
pub(crate) mod reclaimer;
pub(crate) mod requests;
pub(crate) mod round;
pub(crate) mod watch;
