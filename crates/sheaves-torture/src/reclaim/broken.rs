//! Wrong ways to defer objects of a cache, which a run must detect.

use core::ptr::NonNull;

use sheaves_rcu::Cookie;
use sheaves_slab::raw::Cache;

use super::object::Body;
use super::route::Route;
use super::world::WORLD;

/// Mistakes that a run can make, to show that it would find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Broken {
    /// Give a batch the cookie of the moment when its first object came.
    CookieAtPush,
    /// Add objects to a batch that waits for its cookie already.
    Attaches,
    /// Wait for readers in the place of a barrier: what is partial in the slots is forgotten.
    Barrier,
    /// Free one object less than a batch holds.
    OffByOne,
}

/// Objects of a batch.
const BATCH: usize = 64;

/// Objects that one thread defers by itself, as a broken variant does.
pub(super) struct Batch {
    broken: Option<Broken>,
    /// The cookie of the objects.
    cookie: Option<Cookie>,
    objects: Vec<&'static Body>,
}

impl Batch {
    pub(super) fn new(broken: Option<Broken>) -> Batch {
        Batch { broken, cookie: None, objects: Vec::new() }
    }

    /// True when this variant defers objects of this route by itself.
    pub(super) fn is_mistaken(&self, route: Route) -> bool {
        let is_of_objects =
            matches!(self.broken, Some(Broken::CookieAtPush | Broken::Attaches | Broken::OffByOne));
        route == Route::Cache && is_of_objects
    }

    /// Called before an object is unlinked.
    pub(super) fn prepare(&mut self, route: Route) {
        let is_first = self.is_mistaken(route) && self.cookie.is_none();
        if is_first && self.broken == Some(Broken::CookieAtPush) {
            self.cookie = Some(Cookie::start_poll_expedited());
        }
    }

    /// Defers an object that was unlinked.
    pub(super) fn retire(&mut self, body: &'static Body) {
        let Some(cache) = WORLD.cache(Route::Cache) else { return };
        match self.broken {
            // The error: the cookie is older than the unlinking of the last objects.
            Some(Broken::CookieAtPush) => {
                self.objects.push(body);
                if self.objects.len() >= BATCH {
                    self.free_after_cookie(cache, self.objects.len());
                }
            }
            // The error: a batch that already waits gets more objects.
            Some(Broken::Attaches) => {
                self.objects.push(body);
                if self.objects.len() >= BATCH {
                    let cookie = *self.cookie.get_or_insert_with(Cookie::start_poll_expedited);
                    if cookie.poll() {
                        self.free_after_cookie(cache, self.objects.len());
                    }
                }
            }
            // The error: a batch that has one object more than are freed.
            _ => {
                self.objects.push(body);
                if self.objects.len() > BATCH {
                    self.free_after_cookie(cache, BATCH);
                }
            }
        }
    }

    /// Frees `count` objects, once the cookie has passed, and forgets the others.
    fn free_after_cookie(&mut self, cache: &Cache, count: usize) {
        let cookie = self.cookie.take().unwrap_or_else(Cookie::get);
        cookie.wait_expedited().expect("an updater is not inside a section");
        for body in self.objects.drain(..).take(count) {
            // SAFETY: from this cache. Readers may still use it, where the variant is wrong about
            // that; it stays mapped.
            unsafe { cache.free(object(body)) };
        }
    }

    /// Called at the end of the thread: frees the remaining objects correctly.
    pub(super) fn end(mut self) {
        self.cookie = None;
        if let Some(cache) = WORLD.cache(Route::Cache) {
            self.free_after_cookie(cache, self.objects.len());
        }
    }
}

fn object(body: &Body) -> NonNull<u8> {
    NonNull::new(body.address()).expect("an object is somewhere")
}
