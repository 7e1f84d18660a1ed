//! Children with a fault: the test must detect each of them.

use core::time::Duration;
use std::sync::Mutex;
use std::thread;

use crate::FAILED;
use crate::kinds::Kind;
use crate::watch::{self, enter};
use crate::{parent, work};

/// Selects the one to run.
pub(crate) const BROKEN: &str = "SHEAVES_TEST_FORK_BROKEN";
const LIMIT: Duration = Duration::from_millis(300);

/// Name of the fault, and the code of the child.
const ALL: [(&str, fn()); 3] = [
    ("a lock that another thread held at the fork", || drop(LOCK.lock())),
    ("a loop without an end", || {
        loop {
            core::hint::spin_loop();
        }
    }),
    ("a check that fails", || work::check(false)),
];

static LOCK: Mutex<()> = Mutex::new(());

pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name).chain([UNNOTICED])
}

/// Children that do not detect that they are children.
const UNNOTICED: &str = "children without handlers that do not notice it";
const UNNOTICED_FORKS: u32 = 4;

/// Makes a fork whose child is broken.
pub(crate) fn run(name: &str) {
    if name == UNNOTICED {
        sheaves_sys::fork::ignore_children();
        return parent::run(&[Kind::Bare, Kind::Clone], UNNOTICED_FORKS);
    }
    let (_, body) = ALL.iter().find(|(known, _)| *known == name).expect("a variant");
    watch::start();
    watch::set_alarm();
    thread::scope(|scope| {
        let (begin, is_held) = std::sync::mpsc::channel();
        let (end, is_over) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let _held = LOCK.lock();
            begin.send(()).unwrap();
            is_over.recv().unwrap();
        });
        is_held.recv().unwrap();
        let child = Kind::Fork.fork();
        if child == 0 {
            watch::begin_child();
            enter(c"broken");
            body();
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        if let Err(why) = watch::wait_for(child, LIMIT) {
            println!("  {why}");
            FAILED.store(1, core::sync::atomic::Ordering::Relaxed);
        }
        end.send(()).unwrap();
    });
}
