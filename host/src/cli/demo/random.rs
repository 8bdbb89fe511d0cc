//! Numbers that look random and are the same in every run.

/// A generator (SplitMix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 on, below `bound` (0 if that is 0).
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// A number from `low` to `high`.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// One of these.
    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let index = self.below(from.len() as u64);
        usize::try_from(index).ok().and_then(|index| from.get(index)).copied().unwrap_or_default()
    }

    /// Brings these into another order.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or(0);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_within_their_bounds() {
        let take = |seed| {
            let mut random = Random::new(seed);
            (0..100).map(|_| random.between(3, 7)).collect::<Vec<u64>>()
        };
        assert_eq!(take(1), take(1));
        assert_ne!(take(1), take(2));
        assert!(take(1).iter().all(|number| (3..=7).contains(number)));
        assert_eq!((Random::new(1).below(0), Random::new(1).pick(&[])), (0, ""));
    }

    #[test]
    fn shuffling_loses_nothing() {
        let mut items: Vec<u64> = (0..100).collect();
        Random::new(1).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<u64>>());
    }
}
