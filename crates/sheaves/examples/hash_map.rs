//! A table of sessions: requests look sessions up without a lock, while users log in and out and
//! the table is resized. At the end the number of sessions is checked.
//!
//! ```sh
//! cargo run --release -p sheaves --example hash_map
//! ```

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use sheaves::map::RcuHashMap;
use sheaves::rcu::read;

/// The session of a user. Replaced as a whole, so that a request never sees half of a change.
struct Session {
    user: u64,
    name: String,
    requests: AtomicU64,
}

type Sessions = RcuHashMap<u64, Session>;

const USERS: u64 = 50_000;
const LOGINS: u64 = 400_000;
/// Permanent sessions, for health checks: every thread looks them up.
const PERMANENT: u64 = 64;

fn session(token: u64, user: u64) -> Session {
    Session { user, name: format!("user {user} by {token}"), requests: AtomicU64::new(0) }
}

/// Looks random tokens up until all logins are done; returns how many sessions were found.
fn serve(sessions: &Sessions, is_over: &AtomicBool, seed: u64) -> u64 {
    let (mut served, mut token) = (0, seed);
    while !is_over.load(Ordering::Relaxed) {
        token = token.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // One section per request: a session that is found stays valid until its end.
        let guard = read();
        if let Some(session) = sessions.get(&((token >> 33) % USERS), &guard) {
            assert!(session.name.starts_with(&format!("user {} ", session.user)));
            session.requests.fetch_add(1, Ordering::Relaxed);
            served += 1;
        }
        let permanent = (token >> 40) % PERMANENT;
        let found = sessions.get(&(USERS + permanent), &guard);
        assert_eq!(found.map(|session| session.user), Some(permanent), "a lookup missed");
    }
    served
}

/// Logs users in, which grows the table, and out, which shrinks it.
fn log_in_and_out(sessions: &Sessions, share: u64, shares: u64) -> (u64, u64) {
    let (mut logins, mut logouts) = (0, 0);
    for round in 0..LOGINS / USERS {
        for token in (share..USERS).step_by(shares as usize) {
            let is_new = sessions.insert(token, session(token, token * round), &read()).is_none();
            logins += u64::from(is_new);
        }
        for token in (share..USERS).step_by(shares as usize) {
            // Some users stay logged in until the next round.
            if (token + round) % 10 != 0 {
                logouts += u64::from(sessions.remove(&token, &read()).is_some());
            }
        }
    }
    (logins, logouts)
}

fn main() {
    let (sessions, is_over) = (Sessions::new(), AtomicBool::new(false));
    for number in 0..PERMANENT {
        sessions.insert(USERS + number, session(0, number), &read());
    }
    let begin = Instant::now();
    let (mut least, mut most) = (usize::MAX, 0);
    let (served, logins, logouts) = std::thread::scope(|scope| {
        let (sessions, is_over) = (&sessions, &is_over);
        let readers = [1, 2].map(|seed| scope.spawn(move || serve(sessions, is_over, seed)));
        let writers = [0, 1].map(|share| scope.spawn(move || log_in_and_out(sessions, share, 2)));
        while !writers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            least = least.min(sessions.capacity());
            most = most.max(sessions.capacity());
            std::thread::sleep(Duration::from_millis(1));
        }
        is_over.store(true, Ordering::Relaxed);
        let served: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        let books = writers.map(|writer| writer.join().unwrap());
        (served, books[0].0 + books[1].0, books[0].1 + books[1].1)
    });
    let there = sessions.iter(&read()).count() as u64;
    assert_eq!(there, PERMANENT + logins - logouts, "sessions are lost or duplicated");
    assert_eq!(there, sessions.len() as u64);
    assert!(most > least, "the table was not resized");
    println!(
        "{served} requests served during {logins} logins and {logouts} logouts in {:.2} s",
        begin.elapsed().as_secs_f64()
    );
    println!("capacity {least} to {most}; {there} sessions, as many as expected");
}
