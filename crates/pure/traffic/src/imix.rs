//! Mixes of packet sizes for router tests: the simple Internet mix, and genomes (RFC 6985).

use std::collections::BTreeMap;

use netrig_core::Size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{SettingsError, UDP_IPV4_HEADERS};

/// Header (14 bytes) and frame check sequence (4 bytes) of Ethernet (IEEE 802.3 section 3.2).
const ETHERNET: u64 = 18;

/// Largest number of letters in a genome. Longer sequences need a trace.
const LONGEST: usize = 4096;

/// A named mix of IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Imix {
    /// The simple Internet mix: seven packets of 40 bytes to four of 576 and one of 1500, in random order.
    Simple,
}

impl Imix {
    /// Payload sizes, bytes, each with its share in twelfths. IP packets with these payloads have the sizes of the mix.
    pub(crate) const fn payloads(self) -> [(u64, u64); 3] {
        let headers = UDP_IPV4_HEADERS as u64;
        match self {
            Self::Simple => [(40 - headers, 7), (576 - headers, 4), (1500 - headers, 1)],
        }
    }
}

/// A sequence of sizes that repeats: an IMIX genome (RFC 6985 section 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Genome {
    /// One letter for each packet. `a` to `j` are Ethernet frames of 64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000
    /// and 16000 bytes.
    pub sequence: String,
    /// Sizes of IP packets for custom letters, which are upper-case (RFC 6985 section 5), and for `z`, the largest
    /// packet of the path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<String, Size>,
}

impl Genome {
    /// Payload of the `n`-th datagram, counted from 0, bytes. The genome must have passed [`Genome::check`].
    pub(crate) fn payload(&self, n: u64) -> u64 {
        let letters = self.sequence.as_bytes();
        let letter = letters.get((n % letters.len().max(1) as u64) as usize);
        letter
            .and_then(|letter| self.packet(char::from(*letter)))
            .unwrap_or(0)
            .saturating_sub(UDP_IPV4_HEADERS.into())
    }

    /// Payloads of the datagrams of the whole sequence, bytes.
    pub(crate) fn payloads(&self) -> impl Iterator<Item = u64> {
        (0..self.sequence.len() as u64).map(|n| self.payload(n))
    }

    /// Length of the IP packet for a letter, bytes (RFC 6985 section 4, table 1). `None` if the letter is not defined.
    fn packet(&self, letter: char) -> Option<u64> {
        const FRAMES: [u64; 10] = [64, 128, 256, 512, 1024, 1280, 1518, 2112, 9000, 16_000];
        let own = self.sizes.get(letter.encode_utf8(&mut [0; 4]) as &str);
        own.map(|size| size.bytes()).or_else(|| {
            let place = u32::from(letter).checked_sub(u32::from('a'))?;
            FRAMES.get(place as usize).map(|frame| frame - ETHERNET)
        })
    }

    /// Returns an error for an invalid genome. `field` is its key, for the error.
    pub(crate) fn check(&self, field: &'static str) -> Result<(), SettingsError> {
        let wrong = |why: String| Err(SettingsError::new(field, why));
        if self.sequence.is_empty() || self.sequence.len() > LONGEST {
            return wrong(format!("a genome has 1 to {LONGEST} letters, not {}", self.sequence.len()));
        }
        let is_own = |letter: &str| matches!(letter.as_bytes(), [b'A'..=b'Z' | b'z']);
        if let Some(letter) = self.sizes.keys().find(|letter| !is_own(letter)) {
            return wrong(format!("custom sizes are for the letters `A` to `Z` and `z`, not `{letter}`"));
        }
        for letter in self.sequence.chars() {
            match self.packet(letter) {
                Some(bytes) if bytes > UDP_IPV4_HEADERS.into() => {}
                Some(bytes) => {
                    return wrong(format!(
                        "`{letter}` is a packet of {bytes} B, whose headers alone are {UDP_IPV4_HEADERS} B"
                    ));
                }
                None => return wrong(format!("`{letter}` has no size: give one in `sizes`")),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn genome(sequence: &str, sizes: &[(&str, u64)]) -> Genome {
        let sizes = sizes.iter().map(|(letter, bytes)| ((*letter).into(), Size::from_bytes(*bytes)));
        Genome { sequence: sequence.into(), sizes: sizes.collect() }
    }

    /// The letters of RFC 6985's table 1, as payloads: the frame length minus 18 bytes of Ethernet and 28 of UDP and
    /// IPv4.
    #[test]
    fn letters_are_frames_of_ethernet() {
        let payloads: Vec<_> = genome("abg", &[]).payloads().collect();
        assert_eq!(payloads, [64 - 46, 128 - 46, 1518 - 46]);
        assert_eq!(genome("abg", &[]).payload(3), 64 - 46);
    }

    #[test]
    fn letters_of_ones_own_are_ip_packets() {
        let own = genome("aAz", &[("A", 40), ("z", 1500)]);
        own.check("size").unwrap();
        assert_eq!(own.payloads().collect::<Vec<_>>(), [18, 12, 1472]);
    }

    #[test]
    fn what_is_no_genome_is_refused() {
        for (wrong, why) in [
            (genome("", &[]), "1 to 4096"),
            (genome("az", &[]), "`z` has no size"),
            (genome("aé", &[]), "`é` has no size"),
            (genome("A", &[("A", 28)]), "headers alone"),
            (genome("a", &[("b", 100)]), "`A` to `Z`"),
        ] {
            assert!(wrong.check("size").unwrap_err().to_string().contains(why), "{wrong:?}");
        }
    }
}
