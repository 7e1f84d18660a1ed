//! Contenders: everything that can hand out an object and take it back.
//!
//! A workload is written once, generic over [`Contender`], and compiled once for each, so that a
//! contender that is inlined in a real program is inlined here, and one that is called is called.
//! [`Kind`] is the list of them; [`visit`] turns a kind into its type. Contenders that hand out
//! per-CPU memory, count, protect readers, wait for them, or free objects once they are gone have
//! traits of their own, in [`percpu`], [`count`], [`read`], [`wait`], [`dispose`] and [`bulk`].
//!
//! Nothing here may be registered as the global allocator: the program itself stays on glibc.

mod before;
pub(crate) mod bulk;
#[cfg(test)]
mod checks;
pub(crate) mod count;
pub(crate) mod dispose;
pub(crate) mod glibc;
pub(crate) mod ledger;
#[cfg(feature = "peers")]
mod liburcu;
pub(crate) mod map;
pub(crate) mod ours;
#[cfg(feature = "peers")]
pub(crate) mod peers;
pub(crate) mod percpu;
pub(crate) mod read;
pub(crate) mod wait;

use crate::failure::Failure;
use ours::{BySteps, NamedCache};

/// Hands out objects and takes them back.
///
/// The size is passed on both sides; a contender without a sized form ignores it when freeing, and
/// one made for a single size ignores it altogether.
pub(crate) trait Contender: Send + Sync + 'static {
    /// Whether its objects can be written to; only the floor's cannot.
    const HAS_MEMORY: bool = true;

    /// One object of at least `size` bytes, or null.
    fn alloc(&self, size: usize) -> *mut u8;

    /// Takes an object back.
    ///
    /// # Safety
    /// `object` came from `alloc(size)` of this contender and was not freed since.
    unsafe fn free(&self, object: *mut u8, size: usize);

    /// Runs once on each thread before it uses the contender in a sample.
    fn enter_thread(&self) {}
}

/// What a contender is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A named cache of Sheaves: compared with every peer, whichever its form.
    OursCache,
    /// Sheaves with a layout on both sides: compared with the sized forms.
    OursSized,
    /// Sheaves as `malloc` and `free`: compared with the unsized forms.
    OursMalloc,
    /// The same slab with another way to own the slot.
    Baseline,
    /// A peer that is told the size when it frees.
    PeerSized,
    /// A peer that must find the size from the address.
    PeerUnsized,
    /// The workload without an allocator.
    Floor,
    /// Hands out per-CPU memory: takes part in `percpu` only.
    PerCpu,
    /// Counts: takes part in `counter` only.
    Count,
    /// Protects readers: takes part in `readers` only.
    Read,
    /// Waits for readers: takes part in `synchronize` only.
    Wait,
    /// Is a hash map: takes part in `map` only.
    Map,
    /// Does both.
    #[cfg(feature = "peers")]
    Urcu,
    /// Frees objects once readers are gone: takes part in `dispose` or `bulk` only.
    Reclaim,
}

impl Role {
    /// One of the three faces of Sheaves.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Role::OursCache | Role::OursSized | Role::OursMalloc)
    }

    /// Another allocator.
    #[cfg(feature = "peers")]
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Role::PeerSized | Role::PeerUnsized)
    }

    /// Takes part in `readers`.
    pub(crate) fn reads(self) -> bool {
        match self {
            Role::Read => true,
            #[cfg(feature = "peers")]
            Role::Urcu => true,
            _ => false,
        }
    }

    /// Takes part in `synchronize`.
    pub(crate) fn waits(self) -> bool {
        match self {
            Role::Wait => true,
            #[cfg(feature = "peers")]
            Role::Urcu => true,
            _ => false,
        }
    }

    /// Whether `peer` belongs to the field that `self` is judged against.
    pub(crate) fn meets(self, peer: Role) -> bool {
        match self {
            Role::OursCache => matches!(peer, Role::PeerSized | Role::PeerUnsized),
            Role::OursSized => peer == Role::PeerSized,
            Role::OursMalloc => peer == Role::PeerUnsized,
            _ => false,
        }
    }
}

macro_rules! kinds {
    ($($(#[$attribute:meta])* $kind:ident $name:literal $role:ident;)*) => {
        /// Every contender that is built in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($(#[$attribute])* $kind,)* }

        impl Kind {
            /// In the order of the printed tables.
            pub(crate) const ALL: &'static [Kind] = &[$($(#[$attribute])* Kind::$kind,)*];

            /// As printed, and as asked for by `--contenders`.
            pub(crate) fn name(self) -> &'static str {
                match self { $($(#[$attribute])* Kind::$kind => $name,)* }
            }

            /// What it is compared with.
            pub(crate) fn role(self) -> Role {
                match self { $($(#[$attribute])* Kind::$kind => Role::$role,)* }
            }
        }
    };
}

kinds! {
    Cache "cache" OursCache;
    Sized "sized" OursSized;
    Malloc "malloc" OursMalloc;
    Locked "locked" Baseline;
    #[cfg(target_arch = "x86_64")] Tid "tid" Baseline;
    Floor "floor" Floor;
    V50 "V50" PerCpu;
    V52 "V52" PerCpu;
    Fixed "FIXED" PerCpu;
    FixedCaches "FIXED+caches" PerCpu;
    FixedHandles "FIXED+handles" PerCpu;
    MutexPool "mutex-pool" PerCpu;
    PaddedBox "padded-box" PerCpu;
    Counter "counter" Count;
    CounterSlots "counter@64slots" Count;
    Atomic "atomic" Count;
    Sharded "sharded" Count;
    ThreadLocal "thread-local" Count;
    Rcu "rcu" Read;
    Srcu "srcu" Read;
    Increments "increments" Read;
    CrossbeamEpoch "crossbeam-epoch" Read;
    Seize "seize" Read;
    Haphazard "haphazard" Read;
    ArcSwap "arc-swap" Read;
    RwLock "rwlock" Read;
    ParkingLot "parking_lot" Read;
    RcuMap "rcu-map" Map;
    RcuMapHeld "rcu-map-held" Map;
    Papaya "papaya" Map;
    PapayaHeld "papaya-held" Map;
    DashMap "dashmap" Map;
    Direct "direct" Wait;
    Callback "callback" Wait;
    Prototype "prototype" Wait;
    #[cfg(feature = "peers")] UrcuMemb "liburcu-memb" Urcu;
    #[cfg(feature = "peers")] UrcuMb "liburcu-mb" Urcu;
    #[cfg(feature = "peers")] UrcuBp "liburcu-bp" Urcu;
    #[cfg(feature = "peers")] UrcuQsbr "liburcu-qsbr" Urcu;
    Sheaves "sheaves" Reclaim;
    Before "before" Reclaim;
    After "after" Reclaim;
    Without "without" Reclaim;
    Bulk "bulk" Reclaim;
    PerObject "per-object" Reclaim;
    PerObjectGlibc "per-object+glibc" Reclaim;
    #[cfg(feature = "peers")] CrossbeamMimalloc "crossbeam-epoch+mimalloc" Reclaim;
    #[cfg(feature = "peers")] SeizeMimalloc "seize+mimalloc" Reclaim;
    #[cfg(feature = "peers")] HaphazardMimalloc "haphazard+mimalloc" Reclaim;
    #[cfg(feature = "peers")] UrcuCall "liburcu-call_rcu" Reclaim;
    #[cfg(feature = "peers")] UrcuCallMimalloc "liburcu-call_rcu+mimalloc" Reclaim;
    #[cfg(feature = "peers")] UrcuDefer "liburcu-defer_rcu" Reclaim;
    #[cfg(feature = "peers")] UrcuDeferMimalloc "liburcu-defer_rcu+mimalloc" Reclaim;
    Glibc "glibc" PeerUnsized;
    #[cfg(feature = "peers")] Mimalloc "mimalloc" PeerUnsized;
    #[cfg(feature = "peers")] MimallocSized "mimalloc-sized" PeerSized;
    #[cfg(feature = "peers")] Jemalloc "jemalloc" PeerUnsized;
    #[cfg(feature = "peers")] JemallocSized "jemalloc-sized" PeerSized;
    #[cfg(feature = "peers")] Snmalloc "snmalloc" PeerUnsized;
    #[cfg(feature = "peers")] SnmallocSized "snmalloc-sized" PeerSized;
    #[cfg(feature = "peers")] Rpmalloc "rpmalloc" PeerUnsized;
    #[cfg(feature = "peers")] TcmallocPerCpu "tcmalloc@percpu" PeerUnsized;
    #[cfg(feature = "peers")] TcmallocPerThread "tcmalloc@perthread" PeerUnsized;
    #[cfg(feature = "peers")] TcmallocSizedPerCpu "tcmalloc-sized@percpu" PeerSized;
    #[cfg(feature = "peers")] TcmallocSizedPerThread "tcmalloc-sized@perthread" PeerSized;
}

impl Kind {
    /// Looks a printed name up.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The name without the mode: `tcmalloc` for `tcmalloc@percpu`.
    pub(crate) fn family(self) -> &'static str {
        family(self.name())
    }

    /// The mode of the child process that this contender must run in, if it needs one.
    pub(crate) fn mode(self) -> Option<&'static str> {
        self.name().split_once('@').map(|(_, mode)| mode)
    }

    /// Whether this machine can run it.
    pub(crate) fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kind::Tid => sheaves_history::tid::is_available(),
            _ => true,
        }
    }
}

/// A contender's name without the mode behind `@`.
pub(crate) fn family(name: &str) -> &str {
    name.split_once('@').map_or(name, |(family, _)| family)
}

/// The kinds that a comma-separated list names, or all of them for `None`.
pub(crate) fn select(list: Option<&[String]>) -> Result<Vec<Kind>, Failure> {
    let Some(list) = list else { return Ok(Kind::ALL.to_vec()) };
    for name in list {
        if !Kind::ALL.iter().any(|kind| kind.name() == name || kind.family() == name) {
            return Err(unknown(name));
        }
    }
    let wanted = |kind: &Kind| list.iter().any(|n| n == kind.name() || n == kind.family());
    Ok(Kind::ALL.iter().copied().filter(wanted).collect())
}

fn unknown(name: &str) -> Failure {
    let mut known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.family()).collect();
    known.dedup();
    let hint = if cfg!(feature = "peers") { "" } else { "; others need the feature `peers`" };
    Failure::usage(format!("unknown contender '{name}' (there are: {}{hint})", known.join(", ")))
}

/// Which sizes a contender will be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Every object has this size.
    One(usize),
    /// Sizes up to [`ours::MIXED_MAX`].
    Mixed,
}

/// Receives the contender that [`visit`] made, with its type.
pub(crate) trait Visitor {
    /// What the visit leaves behind.
    type Out;
    /// Called once.
    fn visit<C: Contender>(self, contender: C) -> Self::Out;
}

/// Makes the contender and hands it to `visitor`.
pub(crate) fn visit<V: Visitor>(kind: Kind, shape: Shape, visitor: V) -> Result<V::Out, Failure> {
    Ok(match kind {
        Kind::Cache => match shape {
            Shape::One(size) => visitor.visit(NamedCache::new(size)?),
            Shape::Mixed => visitor.visit(BySteps::new(NamedCache::new)?),
        },
        Kind::Locked => match shape {
            Shape::One(size) => visitor.visit(before::locked(size)?),
            Shape::Mixed => visitor.visit(BySteps::new(before::locked)?),
        },
        #[cfg(target_arch = "x86_64")]
        Kind::Tid => match shape {
            Shape::One(size) => visitor.visit(before::tid(size)?),
            Shape::Mixed => visitor.visit(BySteps::new(before::tid)?),
        },
        Kind::Sized => visitor.visit(ours::Sized),
        Kind::Malloc => visitor.visit(ours::Malloc),
        Kind::Glibc => visitor.visit(glibc::Glibc),
        Kind::Floor => visitor.visit(ours::Floor),
        #[cfg(feature = "peers")]
        _ if kind.role().is_peer() => return peers::visit(kind, visitor),
        _ => return Err(Failure::run(format!("{} hands out no ordinary objects", kind.name()))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(*kind));
        }
        assert_eq!(Kind::named("nonsense"), None);
        assert_eq!(family("tcmalloc@percpu"), "tcmalloc");
    }

    #[test]
    fn a_selection_keeps_the_printed_order() {
        let list = ["locked".to_owned(), "cache".to_owned()];
        assert_eq!(select(Some(&list)).unwrap(), [Kind::Cache, Kind::Locked]);
        assert_eq!(select(None).unwrap(), Kind::ALL);
    }

    #[test]
    fn an_unknown_contender_is_a_usage_error() {
        let failure = select(Some(&["fastmalloc".to_owned()])).unwrap_err();
        assert_eq!(failure.status, 2);
        assert!(failure.message.contains("fastmalloc"));
        assert!(!failure.message.contains('\n'));
    }

    #[test]
    fn each_face_meets_its_own_field() {
        assert!(Role::OursCache.meets(Role::PeerSized));
        assert!(Role::OursCache.meets(Role::PeerUnsized));
        assert!(Role::OursSized.meets(Role::PeerSized));
        assert!(!Role::OursSized.meets(Role::PeerUnsized));
        assert!(!Role::OursMalloc.meets(Role::PeerSized));
        assert!(!Role::OursMalloc.meets(Role::Floor));
    }
}
