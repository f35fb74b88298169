//! Checksums.

/// The checksum over the parts in sequence (RFC 1071): the complement of the one's complement sum of their 16-bit words.
/// A part of odd length is padded with a zero byte, so in a packet only the last part may have an odd length.
///
/// The result is 0 if the bytes include their own checksum.
pub fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let mut sum: u64 = parts.iter().map(|part| sum_of(part)).sum();
    // Folds the carries back in. 64 bits do not overflow for any packet length.
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// The sum of 16-bit words. An odd last byte is padded with zero.
fn sum_of(bytes: &[u8]) -> u64 {
    let mut pairs = bytes.chunks_exact(2);
    let sum: u64 = pairs.by_ref().map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    sum + pairs.remainder().first().map_or(0, |last| u64::from(*last) << 8)
}

/// The 64-bit hash FNV-1a. It is the same on every machine. It does not resist deliberate collisions.
pub fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 section 3: 00 01 f2 03 f4 f5 f6 f7 add up to ddf2.
    #[test]
    fn the_sum_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xF2, 0x03, 0xF4, 0xF5, 0xF6, 0xF7];
        assert_eq!(internet_checksum(&[&bytes]), !0xDDF2);
        assert_eq!(internet_checksum(&[&bytes[..2], &bytes[2..]]), !0xDDF2, "in whatever parts");
        assert_eq!(internet_checksum(&[&[0x00, 0x01, 0xF2]]), !0xF201, "an odd octet is the high one");
    }

    proptest! {
        /// RFC 1071 section 1: the sum over a packet with its checksum is all ones.
        #[test]
        fn a_packet_with_its_checksum_sums_to_nothing(mut bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
            bytes[..2].fill(0);
            let sum = internet_checksum(&[&bytes]);
            bytes[..2].copy_from_slice(&sum.to_be_bytes());
            prop_assert_eq!(internet_checksum(&[&bytes]), 0);
        }
    }
}
