//! The system's memory pressure, where `SHEAVES_RCU_PRESSURE=1` asks to look at it.
//!
//! While something is deferred the reclaimer reads how long tasks have waited for memory so far
//! (`/proc/pressure/memory`, Linux 4.20). If that has grown, it does not wait for the age bound.
//! With the default bound that hardly matters, so the look is off; with a bound of seconds it does.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::process;

use super::options;

/// Between two looks.
const LOOK_MS: u64 = 100;

/// The total that was read last, in microseconds. Written by the reclaimer.
static TOTAL: AtomicU64 = AtomicU64::new(0);

/// Has somebody waited for memory since the last look? For the reclaimer.
pub(super) fn is_short() -> bool {
    if !options::looks_at_pressure() {
        return false;
    }
    let mut buffer = [0; 256];
    let used = process::read_file(c"/proc/pressure/memory", &mut buffer).unwrap_or(0);
    let Some(total) = total_us(&buffer[..used]) else { return false };
    // Relaxed: the reclaimer's own.
    TOTAL.swap(total, Ordering::Relaxed) < total
}

/// How long the reclaimer may sleep before the next look.
pub(super) fn patience_ms(rest_ms: u64) -> u64 {
    if options::looks_at_pressure() { rest_ms.min(LOOK_MS) } else { rest_ms }
}

/// The number behind `total=` in the first line, that of `some`.
fn total_us(text: &[u8]) -> Option<u64> {
    let line = core::str::from_utf8(text).ok()?.lines().next()?;
    line.strip_prefix("some ")?
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=9\n";
        assert_eq!(total_us(text), Some(1234));
        assert_eq!(total_us(b""), None);
        assert_eq!(total_us(b"full total=9\n"), None);
    }
}
