//! What an interface does to frames by itself: ethtool's netlink (Documentation/networking/ethtool-netlink.rst).

use netlink_packet_core::DefaultNla;

use super::generic::{Family, Message, kind, nest, string};
use super::{Refusal, attributes, value};

const MSG_FEATURES_GET: u8 = 11;
const MSG_FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// A conversation about the interfaces of the calling thread's namespace.
pub(crate) struct Ethtool(Family);

impl Ethtool {
    /// Opens one in the namespace of the calling thread.
    pub(crate) fn open() -> Result<Self, Refusal> {
        Family::open("ethtool").map(Self)
    }

    /// What an interface does now to checksums and lengths of frames, by the names of `ethtool -k`.
    pub(crate) fn offloads(&mut self, interface: &str) -> Result<Vec<String>, Refusal> {
        let answers = self.ask(MSG_FEATURES_GET, vec![header(interface)])?;
        let mut found = None;
        for active in answers.iter().flat_map(|answer| &answer.attributes) {
            if kind(active) == FEATURES_ACTIVE {
                found = Some(names(active).into_iter().filter(|name| is_offload(name)).collect());
            }
        }
        found.ok_or_else(|| Refusal::Unreadable("no active features are told".into()))
    }

    /// Asks an interface to stop `offloads`. Whether it did is told by asking again.
    pub(crate) fn switch_off(&mut self, interface: &str, offloads: &[String]) -> Result<(), Refusal> {
        // A bit that is listed without a value is one to be cleared; those that are not listed stay.
        let bits =
            offloads.iter().map(|name| nest(BITSET_BITS_BIT, &[string(BIT_NAME, name)])).collect::<Vec<_>>();
        let wanted = nest(FEATURES_WANTED, &[nest(BITSET_BITS, &bits)]);
        self.ask(MSG_FEATURES_SET, vec![header(interface), wanted]).map(drop)
    }

    fn ask(&mut self, command: u8, attributes: Vec<DefaultNla>) -> Result<Vec<Message>, Refusal> {
        self.0.ask(command, attributes)
    }
}

/// Whether a feature leaves checksums to hardware that is not there, or makes frames that no line carries. Told by the
/// pattern of the kernel's names, so that one that a later kernel adds counts too.
fn is_offload(feature: &str) -> bool {
    feature.starts_with("tx-checksum-")
        || feature.ends_with("-segmentation")
        || feature.contains("gso")
        || feature.contains("gro")
        || ["rx-checksum", "rx-lro"].contains(&feature)
}

/// The names of the bits that are set, of a bitset without a mask.
fn names(bitset: &DefaultNla) -> Vec<String> {
    let inside = |attribute: &DefaultNla, wanted: u16| {
        attributes(&value(attribute)).into_iter().filter(move |inner| kind(inner) == wanted)
    };
    let bits = inside(bitset, BITSET_BITS).flat_map(|bits| inside(&bits, BITSET_BITS_BIT));
    let names = bits.flat_map(|bit| inside(&bit, BIT_NAME));
    names.map(|name| String::from_utf8_lossy(&value(&name)).trim_end_matches('\0').to_owned()).collect()
}

fn header(interface: &str) -> DefaultNla {
    nest(FEATURES_HEADER, &[string(HEADER_DEV_NAME, interface)])
}

#[cfg(test)]
mod tests {
    use super::is_offload;

    /// Names of Linux's net/ethtool/common.c.
    #[test]
    fn offloads_are_what_touches_checksums_and_lengths() {
        for name in [
            "tx-checksum-ip-generic",
            "tx-checksum-sctp",
            "tx-tcp-segmentation",
            "tx-tcp6-segmentation",
            "tx-udp-segmentation",
            "tx-generic-segmentation",
            "tx-gso-list",
            "rx-gro",
            "rx-gro-list",
            "rx-checksum",
            "rx-lro",
        ] {
            assert!(is_offload(name), "{name}");
        }
        for name in
            ["tx-scatter-gather", "highdma", "rx-vlan-hw-parse", "tx-lockless", "netns-local", "loopback"]
        {
            assert!(!is_offload(name), "{name}");
        }
    }
}
