//! A routing table: longest prefix match over 100,000 routes, looked up while it is updated.
//!
//! The table is a binary trie. An update copies the path from the root to the change, and replaces
//! the old root by the new one. A look-up walks the trie of the root that it loaded. So look-ups
//! never wait, and each sees the table before an update or after it, never half of it. Run it:
//!
//! ```sh
//! cargo run --release -p sheaves --example routes
//! ```

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use sheaves::rcu::{self, RcuCell};

const ROUTES: usize = 100_000;
const UPDATES: usize = 20_000;
const LOOKUPS: u64 = 1_000_000;
const READERS: u64 = 2;

/// The next hop of packets.
type Hop = u32;

/// A prefix: an address whose bits from `length` on are zero.
type Prefix = (u32, u32);

#[derive(Clone, Default)]
struct Node {
    hop: Option<Hop>,
    children: [Option<Arc<Node>>; 2],
}

impl Node {
    /// The next hop of the longest prefix of an address.
    fn find(&self, address: u32) -> Option<Hop> {
        let (mut node, mut best) = (self, self.hop);
        for depth in 0..32 {
            let bit = (address >> (31 - depth)) & 1;
            let Some(child) = &node.children[bit as usize] else { break };
            node = child;
            best = node.hop.or(best);
        }
        best
    }

    /// The table with another hop for a prefix, or none. Shares the unchanged nodes.
    fn with(&self, (address, length): Prefix, hop: Option<Hop>) -> Node {
        let mut copy = self.clone();
        if length == 0 {
            copy.hop = hop;
            return copy;
        }
        let child = &mut copy.children[(address >> 31) as usize];
        let rest = (address << 1, length - 1);
        let changed = child.as_deref().unwrap_or(&Node::default()).with(rest, hop);
        let is_empty = changed.hop.is_none() && changed.children.iter().all(Option::is_none);
        *child = (!is_empty).then(|| Arc::new(changed));
        copy
    }
}

/// The xorshift generator of Marsaglia (2003): the same routes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    /// A prefix of 8 to 24 bits, most of them long, as in tables of the Internet.
    fn prefix(&mut self) -> Prefix {
        let length = 24 - (self.next() % 17).min(self.next() % 17);
        (self.next() & (u32::MAX << (32 - length)), length)
    }
}

/// The expected result of a look-up, found slowly: every length, the longest first.
fn expected(routes: &BTreeMap<Prefix, Hop>, address: u32) -> Option<Hop> {
    let prefix = |length: u32| {
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        routes.get(&(address & mask, length)).copied()
    };
    (0..=32).rev().find_map(prefix)
}

/// Looks up addresses whose route never changes; returns how many were not found.
fn look_up(table: &RcuCell<Node>, seed: u64, stays: Prefix, hop: Hop) -> u64 {
    let (mut random, mut lost) = (Random(seed), 0);
    for number in 0..LOOKUPS {
        let guard = rcu::read();
        let root = table.load(&guard);
        if number % 2 == 0 {
            let host = random.next() >> stays.1;
            lost += u64::from(root.find(stays.0 | host) != Some(hop));
        } else {
            // Any address: every address has a route.
            lost += u64::from(root.find(random.next()).is_none());
        }
    }
    lost
}

fn main() {
    let mut random = Random(0x5EED);
    let mut routes = BTreeMap::new();
    let (stays, stays_hop) = ((0xC0A8_0000, 24), 7_777_777);
    let mut root = Node::default().with((0, 0), Some(0)).with(stays, Some(stays_hop));
    routes.insert((0, 0), 0);
    routes.insert(stays, stays_hop);
    while routes.len() < ROUTES {
        let (prefix, hop) = (random.prefix(), random.next() % 1_000);
        root = root.with(prefix, Some(hop));
        routes.insert(prefix, hop);
    }
    // No longer prefix hides the permanent one: none has more than 24 bits.
    let table = RcuCell::new(root);
    let lost = AtomicU64::new(0);
    let begin = Instant::now();
    let known: Vec<Prefix> = routes.keys().copied().filter(|prefix| prefix.1 > 0).collect();
    std::thread::scope(|scope| {
        for seed in 1..=READERS {
            let (table, lost) = (&table, &lost);
            scope.spawn(move || {
                lost.fetch_add(look_up(table, seed, stays, stays_hop), Ordering::Relaxed);
            });
        }
        for number in 0..UPDATES {
            let prefix = known[random.next() as usize % known.len()];
            if prefix == stays {
                continue;
            }
            let hop = (number % 3 != 0).then(|| random.next() % 1_000);
            match hop {
                Some(hop) => routes.insert(prefix, hop),
                None => routes.remove(&prefix),
            };
            // Dropping the old table waits for a grace period.
            drop(table.update(|root| root.with(prefix, hop)));
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let lookups = LOOKUPS * READERS;
    println!("{ROUTES} routes; {lookups} look-ups during {UPDATES} updates in {seconds:.2} s");
    assert_eq!(lost.into_inner(), 0, "a look-up has missed a permanent route");
    let guard = rcu::read();
    let root = table.load(&guard);
    for _ in 0..100_000 {
        let address = random.next();
        assert_eq!(root.find(address), expected(&routes, address), "{address:x}");
    }
    println!("no look-up missed a route; the table has {} routes, as expected", routes.len());
}
