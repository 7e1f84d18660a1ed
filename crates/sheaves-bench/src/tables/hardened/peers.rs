//! The peers that are built with their protections, by the feature `peers-hardened`.

use crate::contenders::allocators::Workload;
use crate::contenders::allocators::peer::peer;
use crate::harness::Contender;

pub(super) fn contenders<W: Workload>(workload: W) -> Vec<Contender> {
    vec![
        workload.contender("mimalloc-secure", || Mimalloc),
        workload.contender("snmalloc-checks", || Snmalloc),
    ]
}

peer! {
    Mimalloc,
    |size| libmimalloc_sys::mi_malloc(size),
    |object, _size| libmimalloc_sys::mi_free(object)
}

peer! {
    Snmalloc,
    |size| snmalloc_sys::sn_malloc(size),
    |object, _size| snmalloc_sys::sn_free(object)
}
