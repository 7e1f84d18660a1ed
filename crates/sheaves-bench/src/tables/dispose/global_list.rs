//! `before`: deferred calls on one list for all, as OSv had them until 2014; see
//! [`sheaves_history::global_list`]. Allocator and grace periods are those of the contenders
//! `sheaves` and `after`.

use sheaves::raw::Cache;
use sheaves_history::global_list::GlobalList;

use super::library;
use super::memory::Object;
use crate::contenders::deferral::{Deferral, grace_periods};
use crate::harness::Failure;

pub(super) struct Before {
    cache: &'static Cache,
    list: GlobalList<Object>,
}

impl Before {
    pub(super) fn new() -> Result<Before, Failure> {
        let cache = library::cache_of_calls()?;
        Ok(Before { cache, list: GlobalList::start().map_err(Failure::no_thread)? })
    }
}

impl Deferral for Before {
    #[inline]
    fn dispose(&self) {
        let object = library::allocate(self.cache);
        // SAFETY: nothing else has its address, and the call is that of objects of this cache.
        unsafe { self.list.defer(object, library::free) };
    }

    fn finish(&self) {
        std::thread::yield_now();
    }

    fn periods(&self) -> Option<u64> {
        grace_periods()
    }
}
