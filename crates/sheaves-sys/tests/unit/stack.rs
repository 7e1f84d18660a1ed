//! Tests of private items of `reports/stack`.

extern crate std;

use std::vec::Vec;

use super::*;

/// Two readable pages with an unreadable one after them, as a stack whose bounds are not known.
struct Stack {
    start: usize,
    bytes: usize,
}

impl Stack {
    fn new() -> Stack {
        let page = map::page_bytes();
        let start = map::reserve(3 * page).unwrap();
        // SAFETY: the reservation is the test's own.
        assert!(unsafe { map::commit(start, 2 * page) });
        Stack { start, bytes: 2 * page }
    }

    fn end(&self) -> usize {
        self.start + self.bytes
    }

    fn put(&self, address: usize, value: usize) {
        // SAFETY: in the two pages, which nothing else uses.
        unsafe { core::ptr::with_exposed_provenance_mut::<usize>(address).write(value) };
    }

    /// A frame pointer and a return address.
    fn link(&self, frame: usize, next: usize, caller: usize) {
        self.put(frame, next);
        self.put(frame + 8, caller);
    }

    fn walk(&self, stack: usize, frame: usize) -> Vec<usize> {
        let mut out = [0; 8];
        // SAFETY: the stack stays while the walk runs.
        let count = walk(unsafe { Frame::of(stack, frame) }, &mut out);
        out[..count].to_vec()
    }
}

#[test]
fn follows_a_chain_up_to_its_end() {
    let stack = Stack::new();
    let top = stack.end();
    stack.put(top - 256, 0x1111_0000);
    stack.link(top - 200, top - 104, 0x2222_0000);
    stack.link(top - 104, 0, 0x3333_0000);
    let all = stack.walk(top - 256, top - 200);
    assert_eq!(all, [0x1111_0000, 0x2222_0000, 0x3333_0000]);
}

#[test]
fn garbage_in_the_frame_pointer_ends_the_walk() {
    let stack = Stack::new();
    let low = stack.start + 64;
    stack.put(low, 0x1111_0000);
    for garbage in [0, 1, low, low - 8, low + 12, stack.end(), stack.end() - 8, usize::MAX, 1 << 63]
    {
        assert_eq!(stack.walk(low, garbage), [0x1111_0000], "frame pointer {garbage:#x}");
    }
    // A chain that goes down, or in a circle.
    stack.link(low + 64, low + 64, 0x2222_0000);
    assert_eq!(stack.walk(low, low + 64), [0x1111_0000, 0x2222_0000]);
    stack.link(low + 64, low + 16, 0x2222_0000);
    assert_eq!(stack.walk(low, low + 64), [0x1111_0000, 0x2222_0000]);
}

#[test]
fn an_unreadable_page_is_not_touched() {
    let stack = Stack::new();
    let low = stack.end() - 64;
    stack.put(low, 0x1111_0000);
    // The frame is readable, its return address is not.
    stack.link(low + 16, stack.end() - 8, 0x2222_0000);
    assert_eq!(stack.walk(low, low + 16), [0x1111_0000, 0x2222_0000]);
    stack.link(low + 16, stack.end() + 8, 0x2222_0000);
    assert_eq!(stack.walk(low, low + 16), [0x1111_0000, 0x2222_0000]);
}

#[test]
fn pages_are_asked_for_by_words() {
    let stack = Stack::new();
    for (address, is_readable) in
        [(stack.start, true), (stack.end() - 4, true), (stack.end(), false), (8, false)]
    {
        assert_eq!(futex::is_readable(address), is_readable, "{address:#x}");
    }
}

#[test]
fn the_own_stack_ends_at_its_top() {
    let here = 0_usize;
    let address = (&raw const here).addr();
    if cfg!(any(target_arch = "aarch64", target_arch = "x86_64")) {
        let top = known_top(address).unwrap();
        assert!(top > address && top.is_multiple_of(8));
        assert_eq!(top, tls::thread_pointer(), "this thread's control block is above its stack");
        // From here to the top every page can be read.
        let mut pages = (address..top).step_by(map::page_bytes());
        assert!(pages.all(|page| futex::is_readable(page & !7)));
    }
}

#[test]
fn a_chain_of_the_room_given_is_cut() {
    let stack = Stack::new();
    let low = stack.start;
    stack.put(low, 1 << 20);
    for index in 0..20 {
        let frame = low + 16 + index * 16;
        stack.link(frame, frame + 16, (2 + index) << 20);
    }
    assert_eq!(stack.walk(low, low + 16).len(), 8);
}

#[test]
fn only_the_stack_of_the_thread_itself_is_its_own() {
    let check = || {
        let here = 0_usize;
        assert!(is_own((&raw const here).addr()));
        // As a coroutine has one: memory of its own, below an inaccessible page or not near at all.
        let other = map::anywhere(1 << 20).unwrap();
        assert!(!is_own(other + (1 << 19)));
        // SAFETY: mapped above, and not used any more.
        assert!(unsafe { map::unmap(other, 1 << 20) });
    };
    check();
    std::thread::spawn(check).join().unwrap();
}
