//! Tests of `memfd`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use sheaves_sys::memfd::{make, sealed_bytes};
use sheaves_sys::{map, process};

#[test]
fn is_sealed_private_and_found_by_its_name() {
    let made = make(c"sheaves-test", 8192).expect("a file");
    assert_eq!(sealed_bytes(made), Some(8192));
    let path = format!("/proc/self/fd/{}", made);
    let name = fs::read_link(&path).expect("open").display().to_string();
    assert_eq!(name, "/memfd:sheaves-test (deleted)");
    let file = fs::File::options().write(true).open(&path).expect("ours");
    file.set_len(100).expect_err("nobody makes it smaller");
    let mode = fs::metadata(&path).expect("open").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // SAFETY: the address is the kernel's choice.
    let page = unsafe { map::shared(0, 4096, made) }.expect("mapped");
    // Also without the descriptor.
    process::close(made);
    // SAFETY: mapped above.
    let all = unsafe { map::shared_again(page, 8192) }.expect("mapped again");
    let byte = |address| core::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: mapped above.
    unsafe { byte(all + 4095).write_volatile(7) };
    // SAFETY: as above; these are bytes of the same page.
    assert_eq!(unsafe { byte(page + 4095).read_volatile() }, 7);
    // SAFETY: as above.
    assert_eq!(unsafe { byte(all + 8191).read_volatile() }, 0);
    for (address, bytes) in [(page, 4096), (all, 8192)] {
        // SAFETY: as above.
        assert!(unsafe { map::unmap(address, bytes) });
    }
}
