//! Tests of private items of `space/slab`.

use core::sync::atomic::Ordering;

use super::{Holes, header};
use crate::raw::{Cache, Options};
use crate::space::chunk::{begin_run, finish_run, release_run};

#[test]
fn holes_are_old_once_when_nothing_has_changed() {
    let layout = core::alloc::Layout::new::<u64>();
    let _started = Cache::new("holes", layout, Options::default()).unwrap();
    let run = begin_run(1, 1).unwrap();
    finish_run(&run);
    let slab = header(run.first);
    slab.init(0, 8, false, false);
    assert_eq!(slab.tick_holes(), Holes::Changed);
    assert_eq!(slab.tick_holes(), Holes::Unchanged);
    assert_eq!(slab.tick_holes(), Holes::NothingToDo);
    slab.take(false, 3, |_, _| ());
    assert_eq!(slab.tick_holes(), Holes::Changed);
    slab.take(false, 1, |_, _| ());
    assert_eq!(slab.tick_holes(), Holes::Changed);
    assert_eq!(slab.tick_holes(), Holes::Unchanged);
    slab.take(false, 4, |_, _| ());
    assert_eq!(slab.tick_holes(), Holes::NothingToDo, "there are none");
    // Relaxed: this test's own.
    assert_eq!(slab.free.load(Ordering::Relaxed), 0);
    release_run(run.first, 1);
}
