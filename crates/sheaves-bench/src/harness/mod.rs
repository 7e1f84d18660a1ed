//! What all tables share: how contenders are measured, compared and reported.
//!
//! Nothing here knows a table. [`table`] says what the harness asks of one, [`run`] is the course
//! of a run.

pub(crate) mod chart;
pub(crate) mod child;
pub(crate) mod clock;
pub(crate) mod failure;
pub(crate) mod forked;
pub(crate) mod judge;
pub(crate) mod machine;
pub(crate) mod measure;
pub(crate) mod memory;
pub(crate) mod page;
pub(crate) mod plot;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod ring;
pub(crate) mod run;
pub(crate) mod statistics;
pub(crate) mod sweep;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod trace;
pub(crate) mod workers;

pub(crate) use child::Children;
pub(crate) use clock::{process_time, time_of};
pub(crate) use failure::{Failure, out_of_memory, refused_free};
pub(crate) use forked::Forked;
pub(crate) use judge::{Entrant, Judge};
pub(crate) use machine::Machine;
pub(crate) use measure::{Effort, Sample, Sampler, become_threaded, halves, per_operation};
pub(crate) use memory::{available_bytes, peak_bytes, reset_peak, resident_bytes, resident_in};
pub(crate) use random::{Random, scale};
pub(crate) use report::{Figure, Judgement, LeftOut, Ratio, Report, Shown, distinct};
pub(crate) use ring::{Consumer, Producer, Ring};
pub(crate) use run::Plan;
pub(crate) use statistics::{
    Summary, geometric_mean, mean, paired_ratio, percentile, standard_deviation, summarize,
};
pub(crate) use sweep::{SWEEPS, sweep};
pub(crate) use table::{Case, Contender, Measure, Mode, Options, Part, Row, Sizes, Table, Threads};
pub(crate) use text::{align_numbers, figures, new_table, number};
pub(crate) use trace::{Trace, trace_of};
pub(crate) use workers::{Backoff, SpinBarrier, Workers, allowed_cpus, pin_to};
