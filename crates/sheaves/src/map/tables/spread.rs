//! What the map makes of a hash. Tests that choose the chain of a key include this file.

/// Mixes the bits of a hash: the two halves of one wide multiplication, as in wyhash and foldhash.
/// Hashes that differ in some bits, whichever these are, then differ in low bits, which select the
/// bucket, and in the highest, which are the tag.
#[inline(always)]
pub(crate) fn spread(hash: u64) -> u64 {
    let wide = u128::from(hash) * 0x9E37_79B9_7F4A_7C15;
    wide as u64 ^ (wide >> 64) as u64
}

#[cfg(test)]
#[path = "../../../tests/unit/map_spread.rs"]
mod tests;
