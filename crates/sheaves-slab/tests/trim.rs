//! A trim takes objects from all caches of the process. It has a process of its own, because the
//! statistics of other tests would miss what the trim holds for a moment.

use core::alloc::Layout;
use core::time::Duration;
use std::time::Instant;

use sheaves_slab::raw::{Cache, Options};

/// A trim visits all caches, also those that are created and destroyed meanwhile.
#[test]
fn trim_and_destroy_do_not_meet() {
    let until = Instant::now() + Duration::from_millis(500);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while Instant::now() < until {
                sheaves_slab::trim(0);
                assert!(sheaves_slab::stats::all().all(|(_, stats)| stats.object_bytes > 0));
            }
        });
        scope.spawn(|| {
            while Instant::now() < until {
                let layout = Layout::new::<[u64; 12]>();
                let cache = Cache::new("short-lived", layout, Options::default()).unwrap();
                let object = cache.alloc().unwrap();
                // SAFETY: from this cache.
                unsafe { cache.free(object) };
                cache.destroy().unwrap();
            }
        });
    });
}
