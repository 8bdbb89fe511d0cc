//! Which partition a key belongs to: Kafka's Java clients' rule, so that other tools find our records and we find theirs.

/// Multiplier of the hash.
const M: u32 = 0x5bd1_e995;

/// Kafka's murmur2 of `key` (32 bits, seed 0x9747b28c).
pub fn murmur2(key: &[u8]) -> u32 {
    // The length is an int in Java: longer keys than 2 GiB don't exist in Kafka.
    let mut hash = 0x9747_b28c_u32 ^ (key.len() as u32);
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (i, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * i);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The partition of `key` in a topic of `partitions` partitions (at least one).
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    let positive = (murmur2(key) & 0x7fff_ffff) as i32;
    positive % partitions.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's UtilsTest.
    #[test]
    fn hashes_as_java_does() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
        assert_eq!(murmur2(b"abc") as i32, 479_470_107);
        assert_eq!(murmur2(b"") as i32, 275_646_681);
    }

    #[test]
    fn partitions_are_in_range() {
        for key in ["", "21", "foobar", "P0000001"] {
            for partitions in [1, 2, 7, 8] {
                let partition = partition_for_key(key.as_bytes(), partitions);
                assert!((0..partitions).contains(&partition), "{key} of {partitions}: {partition}");
            }
        }
        assert_eq!(partition_for_key(b"foobar", 8), ((-790_332_482_i32) & 0x7fff_ffff) % 8);
    }
}
