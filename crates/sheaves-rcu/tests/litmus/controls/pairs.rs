//! Controls with two threads and two locations.

use super::{Control, control};
use crate::program::Verdict::{Never, Sometimes};

/// MP: does a reader that sees the flag see the message?
const MESSAGE: &str = r"1:r0=1 /\ 1:r1=0";
/// SB: do both threads miss the write of the other?
const BUFFERED_STORES: &str = r"0:r0=0 /\ 1:r0=0";
/// LB: does each thread read what the other writes later?
const BUFFERED_LOADS: &str = r"0:r0=1 /\ 1:r0=1";
/// S: is the message overwritten before it is written?
const S: &str = r"1:r0=1 /\ x=2";
/// R: as S, with a read in place of the last write.
const R: &str = r"y=2 /\ 1:r0=0";
/// 2+2W: does the first write of each thread win?
const WRITES: &str = r"x=1 /\ y=1";

const WRITER: &str = "WRITE_ONCE(*x, 1); WRITE_ONCE(*y, 1);";
const WRITER_WMB: &str = "WRITE_ONCE(*x, 1); smp_wmb(); WRITE_ONCE(*y, 1);";
const WRITER_RELEASE: &str = "WRITE_ONCE(*x, 1); smp_store_release(y, 1);";
const READER: &str = "r0 = READ_ONCE(*y); r1 = READ_ONCE(*x);";
const READER_RMB: &str = "r0 = READ_ONCE(*y); smp_rmb(); r1 = READ_ONCE(*x);";
const READER_ACQUIRE: &str = "r0 = smp_load_acquire(y); r1 = READ_ONCE(*x);";
const READER_IF: &str = "r0 = READ_ONCE(*y); r1 = 1; if (r0 == 1) r1 = READ_ONCE(*x);";
const STORE_LOAD: [&str; 2] =
    ["WRITE_ONCE(*x, 1); r0 = READ_ONCE(*y);", "WRITE_ONCE(*y, 1); r0 = READ_ONCE(*x);"];
const STORE_MB_LOAD: [&str; 2] = [
    "WRITE_ONCE(*x, 1); smp_mb(); r0 = READ_ONCE(*y);",
    "WRITE_ONCE(*y, 1); smp_mb(); r0 = READ_ONCE(*x);",
];
const LOAD_STORE: &str = "r0 = READ_ONCE(*x); WRITE_ONCE(*y, 1);";
const BACK_DATA: &str = "r0 = READ_ONCE(*y); WRITE_ONCE(*x, r0);";
const S_WRITER: &str = "WRITE_ONCE(*x, 2); smp_wmb(); WRITE_ONCE(*y, 1);";

pub(super) const ALL: &[Control] = &[
    control("MP", Sometimes, &[WRITER, READER], MESSAGE),
    control("MP+wmb+rmb", Never, &[WRITER_WMB, READER_RMB], MESSAGE),
    control("MP+wmb+once", Sometimes, &[WRITER_WMB, READER], MESSAGE),
    control("MP+once+rmb", Sometimes, &[WRITER, READER_RMB], MESSAGE),
    control("MP+rel+acq", Never, &[WRITER_RELEASE, READER_ACQUIRE], MESSAGE),
    control("MP+rel+once", Sometimes, &[WRITER_RELEASE, READER], MESSAGE),
    control("MP+once+acq", Sometimes, &[WRITER, READER_ACQUIRE], MESSAGE),
    // A control dependency does not order reads.
    control("MP+rel+ctrl", Sometimes, &[WRITER_RELEASE, READER_IF], MESSAGE),
    control("SB", Sometimes, &STORE_LOAD, BUFFERED_STORES),
    control("SB+mbs", Never, &STORE_MB_LOAD, BUFFERED_STORES),
    control("SB+mb+once", Sometimes, &[STORE_MB_LOAD[0], STORE_LOAD[1]], BUFFERED_STORES),
    control(
        "SB+rel-acqs",
        Sometimes,
        &[
            "smp_store_release(x, 1); r0 = smp_load_acquire(y);",
            "smp_store_release(y, 1); r0 = smp_load_acquire(x);",
        ],
        BUFFERED_STORES,
    ),
    control(
        "SB+xchgs",
        Never,
        &["xchg(x, 1); r0 = READ_ONCE(*y);", "xchg(y, 1); r0 = READ_ONCE(*x);"],
        BUFFERED_STORES,
    ),
    control(
        "SB+xchgs-relaxed",
        Sometimes,
        &["xchg_relaxed(x, 1); r0 = READ_ONCE(*y);", "xchg_relaxed(y, 1); r0 = READ_ONCE(*x);"],
        BUFFERED_STORES,
    ),
    // A thread may read its own write before others can.
    control(
        "SB+rfis",
        Sometimes,
        &[
            "WRITE_ONCE(*x, 1); r1 = READ_ONCE(*x); r0 = READ_ONCE(*y);",
            "WRITE_ONCE(*y, 1); r1 = READ_ONCE(*y); r0 = READ_ONCE(*x);",
        ],
        r"0:r1=1 /\ 0:r0=0 /\ 1:r1=1 /\ 1:r0=0",
    ),
    control(
        "LB",
        Sometimes,
        &[LOAD_STORE, "r0 = READ_ONCE(*y); WRITE_ONCE(*x, 1);"],
        BUFFERED_LOADS,
    ),
    control("LB+once+data", Sometimes, &[LOAD_STORE, BACK_DATA], BUFFERED_LOADS),
    control(
        "LB+mb+data",
        Never,
        &["r0 = READ_ONCE(*x); smp_mb(); WRITE_ONCE(*y, 1);", BACK_DATA],
        BUFFERED_LOADS,
    ),
    control(
        "LB+acq+rel",
        Never,
        &[
            "r0 = smp_load_acquire(x); WRITE_ONCE(*y, 1);",
            "r0 = READ_ONCE(*y); smp_store_release(x, 1);",
        ],
        BUFFERED_LOADS,
    ),
    control(
        "LB+ctrl+data",
        Never,
        &[
            "r0 = READ_ONCE(*x); if (r0 == 1) WRITE_ONCE(*y, 1); else WRITE_ONCE(*y, 2);",
            "r0 = READ_ONCE(*y); WRITE_ONCE(*x, r0 != 0);",
        ],
        BUFFERED_LOADS,
    ),
    // What follows the arms of an `if` does not depend on it.
    control(
        "LB+after-if+data",
        Sometimes,
        &["r0 = READ_ONCE(*x); if (r0 == 1) r1 = 1; WRITE_ONCE(*y, 1);", BACK_DATA],
        BUFFERED_LOADS,
    ),
    control(
        "LB+data-rfi-data+ctrl",
        Never,
        &[
            "r0 = READ_ONCE(*x); WRITE_ONCE(*z, r0); r1 = READ_ONCE(*z); WRITE_ONCE(*y, r1);",
            "r0 = READ_ONCE(*y); if (r0 == 1) WRITE_ONCE(*x, 1); else WRITE_ONCE(*x, r0 + 1);",
        ],
        BUFFERED_LOADS,
    ),
    control("S", Sometimes, &[S_WRITER, "r0 = READ_ONCE(*y); WRITE_ONCE(*x, 1);"], S),
    control("S+wmb+acq", Never, &[S_WRITER, "r0 = smp_load_acquire(y); WRITE_ONCE(*x, 1);"], S),
    control("S+wmb+data", Never, &[S_WRITER, BACK_DATA], S),
    control("S+wmb+ctrl", Never, &[S_WRITER, "r0 = READ_ONCE(*y); if (r0) WRITE_ONCE(*x, 1);"], S),
    control(
        "S+once+ctrl",
        Sometimes,
        &[
            "WRITE_ONCE(*x, 2); WRITE_ONCE(*y, 1);",
            "r0 = READ_ONCE(*y); if (r0) WRITE_ONCE(*x, 1);",
        ],
        S,
    ),
    control("R", Sometimes, &[WRITER, "WRITE_ONCE(*y, 2); r0 = READ_ONCE(*x);"], R),
    control(
        "R+mbs",
        Never,
        &[
            "WRITE_ONCE(*x, 1); smp_mb(); WRITE_ONCE(*y, 1);",
            "WRITE_ONCE(*y, 2); smp_mb(); r0 = READ_ONCE(*x);",
        ],
        R,
    ),
    control(
        "R+wmb+mb",
        Sometimes,
        &[WRITER_WMB, "WRITE_ONCE(*y, 2); smp_mb(); r0 = READ_ONCE(*x);"],
        R,
    ),
    control(
        "2+2W",
        Sometimes,
        &["WRITE_ONCE(*x, 1); WRITE_ONCE(*y, 2);", "WRITE_ONCE(*y, 1); WRITE_ONCE(*x, 2);"],
        WRITES,
    ),
    control(
        "2+2W+mbs",
        Never,
        &[
            "WRITE_ONCE(*x, 1); smp_mb(); WRITE_ONCE(*y, 2);",
            "WRITE_ONCE(*y, 1); smp_mb(); WRITE_ONCE(*x, 2);",
        ],
        WRITES,
    ),
];
