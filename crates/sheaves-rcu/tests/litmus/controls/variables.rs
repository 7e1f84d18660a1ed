//! Controls with one location: coherence and exchanges; and the order that coherence gives a
//! thread.

use super::{Control, control};
use crate::program::Verdict::{Always, Never, Sometimes};

pub(super) const ALL: &[Control] = &[
    control(
        "CoRR",
        Never,
        &["WRITE_ONCE(*x, 1);", "r0 = READ_ONCE(*x); r1 = READ_ONCE(*x);"],
        r"1:r0=1 /\ 1:r1=0",
    ),
    control(
        "CoRR-forth",
        Sometimes,
        &["WRITE_ONCE(*x, 1);", "r0 = READ_ONCE(*x); r1 = READ_ONCE(*x);"],
        r"1:r0=0 /\ 1:r1=1",
    ),
    control(
        "CoRW",
        Never,
        &["r0 = READ_ONCE(*x); WRITE_ONCE(*x, 1);", "WRITE_ONCE(*x, 2);"],
        r"x=2 /\ 0:r0=2",
    ),
    control(
        "CoWR",
        Never,
        &["WRITE_ONCE(*x, 1); r0 = READ_ONCE(*x);", "WRITE_ONCE(*x, 2);"],
        r"x=1 /\ 0:r0=2",
    ),
    control(
        "CoWR-over",
        Sometimes,
        &["WRITE_ONCE(*x, 1); r0 = READ_ONCE(*x);", "WRITE_ONCE(*x, 2);"],
        r"x=2 /\ 0:r0=2",
    ),
    control("CoWW", Never, &["WRITE_ONCE(*x, 1); WRITE_ONCE(*x, 2);"], "x=1"),
    control("CoWW-end", Always, &["WRITE_ONCE(*x, 1); WRITE_ONCE(*x, 2);"], "x=2"),
    control(
        "xchgs",
        Never,
        &["r0 = xchg_relaxed(x, 1);", "r0 = xchg_relaxed(x, 2);"],
        r"0:r0=0 /\ 1:r0=0",
    ),
    control(
        "xchgs-in-turns",
        Always,
        &["r0 = xchg_relaxed(x, 1);", "r0 = xchg_relaxed(x, 2);"],
        r"0:r0=0 /\ 1:r0=1 /\ x=2 \/ 0:r0=2 /\ 1:r0=0 /\ x=1",
    ),
    control(
        "read-writes",
        Sometimes,
        &["r0 = READ_ONCE(*x); WRITE_ONCE(*x, 1);", "r0 = READ_ONCE(*x); WRITE_ONCE(*x, 2);"],
        r"0:r0=0 /\ 1:r0=0",
    ),
    // The first thread's write comes after its read, since it overwrites what that read.
    control(
        "LB+fri+data+ctrl",
        Never,
        &[
            "r0 = READ_ONCE(*x); WRITE_ONCE(*x, 2);",
            "r0 = READ_ONCE(*x); WRITE_ONCE(*y, r0);",
            "r0 = READ_ONCE(*y); if (r0 == 2) WRITE_ONCE(*x, 1);",
        ],
        r"0:r0=1 /\ 1:r0=2 /\ 2:r0=2",
    ),
];
