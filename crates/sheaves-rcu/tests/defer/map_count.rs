//! The process is at `vm.max_map_count`: memory for what is deferred cannot be unmapped.

use sheaves_rcu::defer::{Head, barrier, call_rcu, statistics as deferred};
use sheaves_rcu::read;

use crate::mappings::{self, exhaust, is_limit_near};
use crate::own_process;

const OWN: &str = "SHEAVES_TEST_OWN";
/// Enough for 20 extents, or more.
const CALLS: usize = 20 * 64 * 127;

unsafe extern "C" fn nothing(_: *mut Head) {}

/// What the kernel refuses to unmap is used again.
#[test]
fn address_space_is_used_again_at_the_limit_of_mappings() {
    if std::env::var_os(OWN).is_none() {
        let name = "map_count::address_space_is_used_again_at_the_limit_of_mappings";
        own_process::pass(name, &[(OWN, "1")]);
        return;
    }
    if !is_limit_near() {
        return;
    }
    let mut heads: Vec<Head> = (0..CALLS).map(|_| Head::new()).collect();
    let mut defer_all = || {
        let guard = read();
        for head in &mut heads {
            // SAFETY: an idle head, which stays where it is: all calls run in `barrier`.
            unsafe { call_rcu(head, nothing) };
        }
        drop(guard);
        barrier().unwrap();
    };
    defer_all();
    let before = mappings::bytes() - deferred().mapped_bytes;
    let (place, bytes) = exhaust();
    (0..20).for_each(|_| defer_all());
    // SAFETY: mapped by `exhaust`, not used.
    assert_eq!(unsafe { libc::munmap(place, bytes) }, 0);
    let lost = mappings::bytes().saturating_sub(before + deferred().mapped_bytes);
    assert!(lost < 1 << 20, "{lost} bytes");
}
