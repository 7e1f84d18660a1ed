//! Every way to defer an object, with its allocation and its free.

use core::alloc::Layout;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use std::collections::VecDeque;

use sheaves::rcu::RcuBox;
use sheaves_heap as heap;
use sheaves_rcu::defer::{Channel, Head, call_hurry, call_rcu};
use sheaves_slab::raw::Cache;

use super::broken::Batch;
use super::counts::{COUNTS, Deed};
use super::object::{BYTES_MAX, BYTES_MIN, Body, Dropping, Headed, Plain};
use super::route::{ROUTES, Route};
use super::world::{POINTERS_PER_ROUTE, WORLD};
use crate::cache_misses::CacheMisses;
use crate::random::Random;

const LAYOUT: Layout = Layout::new::<[u64; 24]>();

unsafe fn end_channel(object: *mut u8) {
    // SAFETY: what was deferred through this channel is an object that came from the heap.
    end(unsafe { Body::at(object) }, Route::Channel);
}

unsafe fn end_channel_head(object: *mut u8) {
    // SAFETY: as above.
    end(unsafe { Body::at(object) }, Route::ChannelHead);
}

static CHANNEL: Channel = Channel::new("torture", end_channel);
static CHANNEL_HEAD: Channel = Channel::new("torture, with heads", end_channel_head);

fn head_of(body: &Body) -> *mut Head {
    // SAFETY: objects with heads are `Headed`, or larger.
    unsafe { body.address().add(offset_of!(Headed, head)) }.cast()
}

unsafe extern "C" fn end_call(head: *mut Head) {
    // SAFETY: the head of an object with one.
    let object = unsafe { head.cast::<u8>().sub(offset_of!(Headed, head)) };
    // SAFETY: as above.
    end(unsafe { Body::at(object) }, Route::Call);
}

unsafe extern "C" fn end_hurry(head: *mut Head) {
    // SAFETY: as in `end_call`.
    let object = unsafe { head.cast::<u8>().sub(offset_of!(Headed, head)) };
    // SAFETY: as above.
    end(unsafe { Body::at(object) }, Route::Hurry);
}

/// The function of a route was called with an object. The object is freed only after a while, so
/// that a reader that still uses it finds the poison.
fn end(body: &'static Body, route: Route) {
    body.end(route);
    WORLD.bury(body);
}

/// Allocates an object of a route for the caller; none when memory is out.
fn make(route: Route, random: &mut Random) -> Option<&'static Body> {
    let (object, bytes) = match route {
        Route::Cache | Route::Constructor | Route::TypeStable | Route::Checked => {
            let cache = WORLD.cache(route)?;
            (cache.alloc()?.as_ptr(), cache.object_bytes())
        }
        Route::TypeStableFree => {
            let cache = WORLD.cache(Route::TypeStable)?;
            (cache.alloc()?.as_ptr(), cache.object_bytes())
        }
        Route::Layout => (heap::alloc_layout(LAYOUT), LAYOUT.size()),
        Route::Large => {
            let most = if random.one_in(8) { BYTES_MAX } else { 100 << 10 };
            let bytes = (33 << 10) + random.below((most - (33 << 10)) as u64) as usize;
            (heap::malloc(bytes), bytes)
        }
        Route::Box => {
            let boxed = RcuBox::try_new(Plain::blank()).ok()?;
            (boxed.into_raw().cast(), size_of::<Plain>())
        }
        Route::BoxDrop => {
            let boxed = RcuBox::try_new(Dropping { value: Plain::blank(), route }).ok()?;
            (boxed.into_raw().cast(), size_of::<Plain>())
        }
        _ => {
            let most = if random.one_in(8) { 8000 } else { 200 };
            let bytes = BYTES_MIN + random.below(most) as usize;
            (heap::malloc(bytes), bytes)
        }
    };
    let object = NonNull::new(object)?;
    // SAFETY: of that many bytes, and ours.
    let body = unsafe { Body::at(object.as_ptr()) };
    body.begin(route, bytes, random.below(1 << 50));
    Some(body)
}

/// Defers an object that is unlinked.
fn retire(route: Route, body: &'static Body, batch: &mut Batch) {
    body.defer(route);
    if batch.is_mistaken(route) {
        return batch.retire(body);
    }
    let object = body.address();
    match route {
        Route::Cache | Route::Constructor | Route::TypeStable | Route::Checked => {
            let object = NonNull::new(object).expect("an object");
            let cache = WORLD.cache(route).expect("there are caches while there are objects");
            // SAFETY: from this cache, and only readers use it.
            unsafe { cache.free_rcu(object) };
        }
        Route::TypeStableFree => {
            let object = NonNull::new(object).expect("an object");
            let cache = WORLD.cache(Route::TypeStable).expect("as above");
            // SAFETY: from this cache, whose readers know that it may be reused.
            unsafe { cache.free(object) };
        }
        Route::Passing | Route::Retired => unreachable!("these have their own makers"),
        // SAFETY: from the heap, and only readers use it.
        Route::Small | Route::Large => unsafe { heap::free_rcu(object) },
        // SAFETY: the same, with this layout.
        Route::Layout => unsafe { heap::free_rcu_layout(object, LAYOUT) },
        // SAFETY: only readers use it, and the channel's function frees it.
        Route::Channel => unsafe { CHANNEL.free_later(object, BYTES_MIN) },
        Route::ChannelHead => {
            let head = idle_head(body);
            // SAFETY: as above; the head is inside the object.
            unsafe { CHANNEL_HEAD.free_later_with(head, object, BYTES_MIN) };
        }
        // SAFETY: only readers use it, and the function frees it.
        Route::Call => unsafe { call_rcu(idle_head(body), end_call) },
        // SAFETY: as above.
        Route::Hurry => unsafe { call_hurry(idle_head(body), end_hurry) },
        Route::Closure => sheaves_rcu::defer(move || end(body, Route::Closure)),
        // SAFETY: from a box of this type, once.
        Route::Box => drop(unsafe { RcuBox::<Plain>::from_raw(object.cast()) }),
        // SAFETY: as above.
        Route::BoxDrop => drop(unsafe { RcuBox::<Dropping>::from_raw(object.cast()) }),
    }
}

/// The head of an object, made idle: the memory is new.
fn idle_head(body: &Body) -> *mut Head {
    let head = head_of(body);
    // SAFETY: inside of the object, and readers do not read it.
    unsafe { head.write(Head::new()) };
    head
}

/// Replaces an object of a route by another one, and defers it. False when memory is out.
pub(super) fn update(route: Route, random: &mut Random, batch: &mut Batch) -> bool {
    let place = random.below(POINTERS_PER_ROUTE as u64) as usize;
    if route == Route::Retired {
        retire_value(place, random);
        return true;
    }
    batch.prepare(route);
    let Some(new) = make(route, random) else { return false };
    let old = WORLD.places[route as usize][place].swap(new.address(), Ordering::AcqRel);
    if let Some(old) = NonNull::new(old) {
        // SAFETY: places contain objects only.
        retire(route, unsafe { Body::at(old.as_ptr()) }, batch);
    }
    true
}

/// The same in a cell.
fn retire_value(place: usize, random: &mut Random) {
    let route = Route::Retired;
    let boxed = Box::new(Dropping { value: Plain::blank(), route });
    // SAFETY: the address of a box that is not moved any more.
    let body = unsafe { Body::at(core::ptr::from_ref(&*boxed).cast_mut().cast()) };
    body.begin(route, size_of::<Plain>(), random.below(1 << 50));
    if let Some(old) = WORLD.cells[place].swap(Some(boxed)) {
        old.value.body.defer(route);
        old.defer();
    }
}

/// Objects that a duelling updater has at a time.
const DUEL: usize = 64;

/// Allocates objects of a cache and defers or frees them, by transactions whose last store stays
/// invisible for as long as possible. A drain that does not wait for the store takes the same
/// objects, too.
pub(super) fn duel(misses: &mut CacheMisses, random: &mut Random) {
    let (route, mut batch) = (Route::Cache, Batch::new(None));
    let mut live = VecDeque::with_capacity(DUEL);
    while WORLD.rounds.is_duel() && !WORLD.rounds.is_stopped() {
        live.extend(make(route, random));
        if live.len() < DUEL {
            continue;
        }
        let Some(body) = live.pop_front() else { continue };
        misses.delay_store(random);
        if random.one_in(2) {
            retire(route, body, &mut batch);
        } else {
            body.defer(route);
            WORLD.cache(route).into_iter().for_each(|cache| free_at_once(cache, body));
        }
        COUNTS.did(Deed::Duel);
    }
    live.into_iter().for_each(|body| retire(route, body, &mut batch));
}

fn free_at_once(cache: &Cache, body: &Body) {
    let object = NonNull::new(body.address()).expect("an object is somewhere");
    // SAFETY: from this cache, and nothing uses it.
    unsafe { cache.free(object) };
}

/// Allocates many objects of a route at once, so that slabs are filled, and defers all of them.
pub(super) fn burst(route: Route, count: usize, random: &mut Random, batch: &mut Batch) {
    if matches!(route, Route::Retired | Route::Large) {
        return;
    }
    let objects: Vec<_> = (0..count).filter_map(|_| make(route, random)).collect();
    objects.into_iter().for_each(|body| retire(route, body, batch));
}

/// Unlinks and defers the objects in the places of all routes. No thread updates any more.
pub(super) fn empty_places(batch: &mut Batch) {
    for ((route, _), places) in ROUTES.into_iter().zip(&WORLD.places) {
        for place in places {
            let old = place.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if let Some(old) = NonNull::new(old) {
                // SAFETY: places contain objects only.
                retire(route, unsafe { Body::at(old.as_ptr()) }, batch);
            }
        }
    }
    for old in WORLD.cells.iter().filter_map(sheaves_rcu::RcuOption::take) {
        old.value.body.defer(Route::Retired);
        old.defer();
    }
}
