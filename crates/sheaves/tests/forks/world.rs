//! State that the threads of the parent share.

use sheaves::raw::{Cache, Options};
use sheaves::rcu::{RcuOption, Srcu};
use sheaves::{Counter, PerCpu, PerCpuRef};

use core::sync::atomic::{AtomicBool, AtomicU64};

use crate::work::{Map, make_cache};

pub(crate) struct World {
    pub(crate) stop: AtomicBool,
    /// An ordinary cache, a debug cache, and a type-stable one.
    pub(crate) caches: [Cache; 3],
    /// The same kinds; the children destroy these at once.
    pub(crate) doomed: [Cache; 3],
    /// A debug cache with at most one allocated object.
    pub(crate) single: [Cache; 1],
    pub(crate) option: RcuOption<u64>,
    /// Killed and reinitialised without any reference.
    pub(crate) lonely: PerCpuRef,
    /// The same, while other threads take references.
    pub(crate) shared: PerCpuRef,
    pub(crate) domain: Srcu,
    pub(crate) counter: Counter,
    pub(crate) value: PerCpu<[AtomicU64; 3]>,
    pub(crate) map: Map,
}

impl World {
    pub(crate) fn new() -> &'static World {
        let options = [
            Options::default(),
            Options { debug: true, ..Options::default() },
            Options { typesafe_by_rcu: true, ..Options::default() },
        ];
        Box::leak(Box::new(World {
            stop: AtomicBool::new(false),
            caches: options.map(|options| make_cache(256, options).unwrap()),
            doomed: options.map(|options| make_cache(264, options).unwrap()),
            single: [make_cache(264, options[1]).unwrap()],
            option: RcuOption::new(0),
            lonely: PerCpuRef::new(|| {}),
            shared: PerCpuRef::new(|| {}),
            domain: Srcu::new().unwrap(),
            counter: Counter::new(),
            value: PerCpu::zeroed().unwrap(),
            map: Map::default(),
        }))
    }
}
