//! The fast paths as functions of their own, for `cargo xtask disasm` to show.
//!
//! Each is what a caller gets that the compiler does not inline into; inlined ones lose the return
//! and, in loops, the loads of what does not change.

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::NonNull;

use sheaves::Sheaves;
use sheaves::raw::{Cache, Options};

/// `Cache::alloc`.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn fast_cache_alloc(cache: &Cache) -> Option<NonNull<u8>> {
    cache.alloc()
}

/// `Cache::free`.
///
/// # Safety
/// As [`Cache::free`].
#[inline(never)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fast_cache_free(cache: &Cache, object: NonNull<u8>) {
    // SAFETY: the caller's contract.
    unsafe { cache.free(object) }
}

/// The layout of a small Rust value, known when compiling as it is for `Box`.
const LAYOUT: Layout = Layout::new::<[u64; 8]>();

/// `GlobalAlloc::alloc` with a constant layout.
#[inline(never)]
#[unsafe(no_mangle)]
pub extern "C" fn fast_sized_alloc() -> *mut u8 {
    // SAFETY: the layout has a size.
    unsafe { Sheaves.alloc(LAYOUT) }
}

/// `GlobalAlloc::dealloc` with a constant layout.
///
/// # Safety
/// `block` came from [`fast_sized_alloc`].
#[inline(never)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fast_sized_free(block: *mut u8) {
    // SAFETY: the caller's contract.
    unsafe { Sheaves.dealloc(block, LAYOUT) }
}

sheaves::heap::define_malloc! {
    /// `malloc`.
    #[unsafe(no_mangle)]
    fast_malloc -> u8
}

sheaves::heap::define_free! {
    /// `free`.
    ///
    /// # Safety
    /// As [`sheaves::heap::free`].
    #[unsafe(no_mangle)]
    fast_free(u8)
}

fn main() {
    let cache = Cache::new("shown", LAYOUT, Options::default()).expect("a cache");
    if let Some(object) = black_box(fast_cache_alloc(&cache)) {
        // SAFETY: just allocated from this cache.
        unsafe { fast_cache_free(&cache, object) };
    }
    let block = black_box(fast_sized_alloc());
    // SAFETY: just allocated.
    unsafe { fast_sized_free(block) };
    let block = black_box(fast_malloc(black_box(64)));
    // SAFETY: just allocated.
    unsafe { fast_free(block) };
    println!("this program is for the disassembler");
}
