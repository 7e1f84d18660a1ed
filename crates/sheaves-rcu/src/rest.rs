//! What a thread has left of its turns, or owes, see `turns`.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::turns::TURN;

/// Grace periods, and when that number changed last: it is forgotten after [`AGE_MAX`]. A hint: of
/// two that change it at the same time one may be lost. Zero is nothing.
///
/// | bits | what |
/// |---|---|
/// | 16..32 | when, in units of 65,536 ns |
/// | 0..16 | how many, signed: left, or owed |
#[repr(transparent)]
pub(crate) struct Rest(AtomicU32);

/// What counts at most.
const REST_MAX: i32 = 32 * TURN.cast_signed();
const STAMP_SHIFT: u32 = 16;
/// Four milliseconds.
const AGE_MAX: u16 = 64;

impl Rest {
    pub(crate) fn clear(&self) {
        // Relaxed: a hint.
        self.0.store(0, Ordering::Relaxed);
    }

    /// What there is; nothing from now on.
    pub(crate) fn take(&self, now_ns: u64) -> i32 {
        let rest = self.get(now_ns);
        self.clear();
        rest
    }

    /// Adds to it, or takes away from it.
    pub(crate) fn add(&self, left: i32, now_ns: u64) {
        let bounded = |rest: i32| rest.clamp(-REST_MAX, REST_MAX);
        let rest = bounded(self.get(now_ns) + bounded(left));
        let value = u32::from(stamp(now_ns)) << 16 | u32::from(rest as u16);
        // Relaxed: a hint.
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self, now_ns: u64) -> i32 {
        // Relaxed: a hint.
        let value = self.0.load(Ordering::Relaxed);
        let age = stamp(now_ns).wrapping_sub((value >> 16) as u16);
        if age < AGE_MAX { i32::from(value as i16) } else { 0 }
    }
}

fn stamp(now_ns: u64) -> u16 {
    (now_ns >> STAMP_SHIFT) as u16
}

const _: () = assert!(REST_MAX <= i16::MAX as i32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_or_owed_is_bounded_and_forgotten() {
        let rest = Rest(AtomicU32::new(0));
        let now = 1_000_000_000;
        rest.add(-5, now);
        rest.add(2, now + 1_000_000);
        assert_eq!(rest.take(now + 2_000_000), -3);
        assert_eq!(rest.take(now + 2_000_000), 0);
        rest.add(i32::MIN, now);
        rest.add(-1, now);
        assert_eq!(rest.take(now), -REST_MAX);
        rest.add(7, now);
        assert_eq!(rest.take(now + 5_000_000), 0);
    }
}
