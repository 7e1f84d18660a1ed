//! What is left where nothing may be.

use sheaves_rcu::defer;

/// Objects that statistics and caches report as deferred after a barrier, when no thread defers.
pub(super) fn left() -> Vec<String> {
    let statistics = defer::statistics();
    let paths = [
        ("calls", statistics.calls),
        ("linked calls", statistics.linked_calls),
        ("channels", statistics.channels),
        ("sealed", statistics.sealed),
    ];
    let layers = statistics.layers.map(|layer| (layer.name, layer.pending));
    let pending = paths.into_iter().chain(layers);
    let pending = pending.filter(|(_, pending)| pending.objects != 0 || pending.bytes != 0);
    let mut left: Vec<_> = pending
        .map(|(name, pending)| {
            format!("{name}, {} objects, {} bytes", pending.objects, pending.bytes)
        })
        .collect();
    for (name, stats) in sheaves_slab::stats::all().filter(|stats| stats.1.objects_deferred != 0) {
        left.push(format!("cache {}, {} objects", name.as_str(), stats.objects_deferred));
    }
    left
}
