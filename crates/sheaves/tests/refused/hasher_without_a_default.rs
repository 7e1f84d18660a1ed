//! A map that is collected makes its hasher.

use sheaves::map::RcuHashMap;

struct Hasher(std::hash::RandomState);

impl std::hash::BuildHasher for Hasher {
    type Hasher = std::hash::DefaultHasher;
    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

fn main() {
    let _: RcuHashMap<u64, u64, Hasher> = [(1, 1)].into_iter().collect();
}
