//! The contenders of every row of `hardened`.

#[cfg(feature = "peers-hardened")]
use super::peers;
use crate::contenders::allocators::{Workload, glibc, library};
use crate::harness::{Contender, Mode};

pub(super) const PEERS: &[&str] = &["mimalloc-secure", "snmalloc-checks"];

const HARDENED: Mode = Mode { name: "hardened", environment, is_fresh: false };

pub(super) fn environment() -> Vec<(&'static str, String)> {
    vec![("SHEAVES_HARDEN", "1".to_owned())]
}

pub(super) fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    #[cfg_attr(not(feature = "peers-hardened"), expect(unused_mut, reason = "peers are added"))]
    let mut contenders = vec![
        workload.contender("hardened", || library::Malloc).in_child(HARDENED),
        workload.contender("malloc", || library::Malloc),
        workload.contender("glibc", || glibc::Glibc),
    ];
    #[cfg(feature = "peers-hardened")]
    contenders.extend(peers::contenders(workload));
    contenders
}
