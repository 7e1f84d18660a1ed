//! Tests of private items of `page`.

use super::*;

/// The state of the page after this process has found a request for a process.
fn state_after_request_of(process: u32) -> u32 {
    let control = CONTROL.lock();
    let page = (*control).expect("made when the program was loaded");
    // Relaxed, all: there is one thread.
    page.command.store(RCU, Ordering::Relaxed);
    page.argument.store(0, Ordering::Relaxed);
    page.request.process.store(process, Ordering::Relaxed);
    page.request.state.store(REQUESTED, Ordering::Relaxed);
    answer_request(control, page);
    page.request.state.swap(IDLE, Ordering::Relaxed)
}

#[test]
fn request_of_another_process_is_put_back() {
    start();
    let own = process::id().cast_unsigned();
    assert_eq!(state_after_request_of(own + 1), REQUESTED);
    assert_eq!(state_after_request_of(own), ANSWERED);
}
