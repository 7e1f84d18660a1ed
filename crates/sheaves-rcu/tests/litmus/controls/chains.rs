//! Controls with three and four threads: does what one thread has seen reach the next?

use super::{Control, control};
use crate::program::Verdict::{Never, Sometimes};

const WRITE_X: &str = "WRITE_ONCE(*x, 1);";
const WRITE_Y: &str = "WRITE_ONCE(*y, 1);";
const RELEASES_Y: &str = "WRITE_ONCE(*x, 1); smp_store_release(y, 1);";
const ACQUIRES_Y: &str = "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);";

/// WRC: the third thread sees what the second wrote, but not what that had seen.
const CAUSALITY: &str = r"1:r0=1 /\ 2:r0=1 /\ 2:r1=0";
/// RWC: as WRC, but the third thread writes what the second does not see.
const RACES: &str = r"1:r0=1 /\ 1:r1=0 /\ 2:r0=0";
/// Z6.0: a write is seen, the next one is overwritten, the last is missed.
const Z6: &str = r"1:r0=1 /\ z=2 /\ 2:r0=0";
/// IRIW: two readers see two writes in opposite orders.
const OPPOSITE: &str = r"1:r0=1 /\ 1:r1=0 /\ 3:r0=1 /\ 3:r1=0";

pub(super) const ALL: &[Control] = &[
    control(
        "WRC",
        Sometimes,
        &[
            WRITE_X,
            "r0 = READ_ONCE(*x); WRITE_ONCE(*y, 1);",
            "r0 = READ_ONCE(*y); r1 = READ_ONCE(*x);",
        ],
        CAUSALITY,
    ),
    control(
        "WRC+rel+acq",
        Never,
        &[WRITE_X, "r0 = READ_ONCE(*x); smp_store_release(y, 1);", ACQUIRES_Y],
        CAUSALITY,
    ),
    control(
        "WRC+rel+rmb",
        Never,
        &[
            WRITE_X,
            "r0 = READ_ONCE(*x); smp_store_release(y, 1);",
            "r0 = READ_ONCE(*y); smp_rmb(); r1 = READ_ONCE(*x);",
        ],
        CAUSALITY,
    ),
    // Dependencies order within their thread only.
    control(
        "WRC+data+acq",
        Sometimes,
        &[WRITE_X, "r0 = READ_ONCE(*x); WRITE_ONCE(*y, r0);", ACQUIRES_Y],
        CAUSALITY,
    ),
    control(
        "ISA2",
        Sometimes,
        &[
            "WRITE_ONCE(*x, 1); WRITE_ONCE(*y, 1);",
            "r0 = READ_ONCE(*y); WRITE_ONCE(*z, 1);",
            "r0 = READ_ONCE(*z); r1 = READ_ONCE(*x);",
        ],
        CAUSALITY,
    ),
    control(
        "ISA2+rel+acq-rel+acq",
        Never,
        &[
            RELEASES_Y,
            "r0 = smp_load_acquire(y); smp_store_release(z, 1);",
            "r0 = smp_load_acquire(z); r1 = READ_ONCE(*x);",
        ],
        CAUSALITY,
    ),
    // A release also reaches those that read it through an exchange that orders nothing.
    control(
        "MP+rel+xchg-relaxed+acq",
        Never,
        &[RELEASES_Y, "r0 = xchg_relaxed(y, 2);", "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);"],
        r"1:r0=1 /\ 2:r0=2 /\ 2:r1=0",
    ),
    // A write that is not part of an exchange does not carry the release on.
    control(
        "MP+rel+read-write+acq",
        Sometimes,
        &[
            RELEASES_Y,
            "r0 = READ_ONCE(*y); WRITE_ONCE(*y, 2);",
            "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);",
        ],
        r"1:r0=1 /\ 2:r0=2 /\ 2:r1=0",
    ),
    control(
        "RWC+acq+mb",
        Sometimes,
        &[
            WRITE_X,
            "r0 = smp_load_acquire(x); r1 = READ_ONCE(*y);",
            "WRITE_ONCE(*y, 1); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        RACES,
    ),
    control(
        "RWC+mbs",
        Never,
        &[
            WRITE_X,
            "r0 = READ_ONCE(*x); smp_mb(); r1 = READ_ONCE(*y);",
            "WRITE_ONCE(*y, 1); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        RACES,
    ),
    control(
        "W+RWC+rel+acq+mb",
        Sometimes,
        &[
            RELEASES_Y,
            "r0 = smp_load_acquire(y); r1 = READ_ONCE(*z);",
            "WRITE_ONCE(*z, 1); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        RACES,
    ),
    control(
        "W+RWC+mb+acq+mb",
        Never,
        &[
            "WRITE_ONCE(*x, 1); smp_mb(); WRITE_ONCE(*y, 1);",
            "r0 = smp_load_acquire(y); r1 = READ_ONCE(*z);",
            "WRITE_ONCE(*z, 1); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        RACES,
    ),
    // A chain of releases does not suffice where two of its links are not reads.
    control(
        "Z6.0+rel+acq-rel+mb",
        Sometimes,
        &[
            RELEASES_Y,
            "r0 = smp_load_acquire(y); smp_store_release(z, 1);",
            "WRITE_ONCE(*z, 2); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        Z6,
    ),
    control(
        "Z6.0+mbs",
        Never,
        &[
            "WRITE_ONCE(*x, 1); smp_mb(); WRITE_ONCE(*y, 1);",
            "r0 = READ_ONCE(*y); smp_mb(); WRITE_ONCE(*z, 1);",
            "WRITE_ONCE(*z, 2); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        Z6,
    ),
    control(
        "IRIW+acqs",
        Sometimes,
        &[
            WRITE_X,
            "r0 = smp_load_acquire(x); r1 = READ_ONCE(*y);",
            WRITE_Y,
            "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);",
        ],
        OPPOSITE,
    ),
    control(
        "IRIW+mbs",
        Never,
        &[
            WRITE_X,
            "r0 = READ_ONCE(*x); smp_mb(); r1 = READ_ONCE(*y);",
            WRITE_Y,
            "r0 = READ_ONCE(*y); smp_mb(); r1 = READ_ONCE(*x);",
        ],
        OPPOSITE,
    ),
    control(
        "IRIW+mb+once",
        Sometimes,
        &[
            WRITE_X,
            "r0 = READ_ONCE(*x); smp_mb(); r1 = READ_ONCE(*y);",
            WRITE_Y,
            "r0 = READ_ONCE(*y); r1 = READ_ONCE(*x);",
        ],
        OPPOSITE,
    ),
];
