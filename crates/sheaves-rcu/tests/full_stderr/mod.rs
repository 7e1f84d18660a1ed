//! A standard error that takes nothing. Shared by several test programs.

/// Runs `body` while standard error is a pipe that is full: a line that is written there waits.
pub(crate) fn in_front_of_full_stderr<R>(body: impl FnOnce() -> R) -> R {
    let mut pipe = [0; 2];
    // SAFETY: the descriptors are valid for the call to fill.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_NONBLOCK) }, 0);
    for bytes in [vec![0; 4096], vec![0; 1]] {
        // SAFETY: the bytes are valid; without room the call fails.
        while unsafe { libc::write(pipe[1], bytes.as_ptr().cast(), bytes.len()) } > 0 {}
    }
    // SAFETY: integers only, here and below.
    assert_eq!(unsafe { libc::fcntl(pipe[1], libc::F_SETFL, 0) }, 0);
    // SAFETY: as above.
    let before = unsafe { libc::dup(2) };
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(pipe[1], 2) }, 2);
    let result = body();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(before, 2) }, 2);
    // Ends the wait of the line.
    // SAFETY: as above; opened by this function.
    pipe.into_iter().for_each(|end| _ = unsafe { libc::close(end) });
    result
}

/// Whether a new thread does this within 20 s.
pub(crate) fn is_done_in_time(body: impl FnOnce() + Send + 'static) -> bool {
    let (say_done, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        body();
        say_done.send(())
    });
    done.recv_timeout(core::time::Duration::from_secs(20)).is_ok()
}
