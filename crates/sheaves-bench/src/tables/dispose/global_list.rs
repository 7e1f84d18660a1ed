//! `before`: deferred calls on one list for all, as OSv had them until 2014; see
//! [`sheaves_history::global_list`]. Allocator and grace periods are those of the contenders
//! `sheaves` and `after`.

use sheaves::raw::Cache;
use sheaves_history::global_list::GlobalList;

use super::contenders::Dispose;
use super::library;
use super::memory::Object;
use crate::harness::failure::Failure;

/// The list, and where objects come from.
pub(super) struct Before {
    cache: &'static Cache,
    list: GlobalList<Object>,
}

impl Before {
    pub(super) fn new() -> Result<Before, Failure> {
        let cache = library::cache_of_calls()?;
        let list = GlobalList::start()
            .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))?;
        Ok(Before { cache, list })
    }
}

impl Dispose for Before {
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
        Some(library::periods())
    }
}
