//! Offloads and queues of interfaces, by the netlink family `ethtool` (Documentation/networking/ethtool-netlink.rst).

use netlink_packet_core::DefaultNla;

use super::generic::{GenericFamily, kind, nest, number, string};
use super::{NetlinkError, attributes, value};

const MSG_FEATURES_GET: u8 = 11;
const MSG_FEATURES_SET: u8 = 12;
const MSG_RINGS_GET: u8 = 15;
const RINGS_HEADER: u16 = 1;
const RINGS_RX_MAX: u16 = 2;
const RINGS_TX_MAX: u16 = 5;
const RINGS_RX: u16 = 6;
const RINGS_TX: u16 = 9;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// Reads and sets properties of the interfaces in the network namespace in which it was opened.
#[derive(Debug)]
pub struct Ethtool(GenericFamily);

/// Sizes of the queues between a driver and its interface, packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSizes {
    /// Receive queue: current and maximum size.
    pub receive: Option<[u32; 2]>,
    /// Send queue: current and maximum size.
    pub send: Option<[u32; 2]>,
}

impl Ethtool {
    /// Opens a netlink socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn open() -> Result<Self, NetlinkError> {
        GenericFamily::open("ethtool").map(Self)
    }

    /// The active offloads of an interface that affect checksums and frame lengths, with the names that `ethtool -k`
    /// uses.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn offloads(&mut self, interface: &str) -> Result<Vec<String>, NetlinkError> {
        let answers = self.0.ask(MSG_FEATURES_GET, vec![header(FEATURES_HEADER, interface)])?;
        let mut found = None;
        for active in answers.iter().flat_map(|answer| &answer.attributes) {
            if kind(active) == FEATURES_ACTIVE {
                found = Some(names(active).into_iter().filter(|name| is_offload(name)).collect());
            }
        }
        found.ok_or_else(|| NetlinkError::Unreadable("no active features are reported".into()))
    }

    /// The sizes of the queues between an interface and its driver (`ethtool -g`). For a virtual interface, which has
    /// no such queues, the kernel returns an error.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn rings(&mut self, interface: &str) -> Result<RingSizes, NetlinkError> {
        let answers = self.0.ask(MSG_RINGS_GET, vec![header(RINGS_HEADER, interface)])?;
        let number = |wanted: u16| answers.iter().find_map(|answer| number(&answer.attributes, wanted));
        let pair = |now: u16, most: u16| Some([number(now)?, number(most)?]);
        Ok(RingSizes { receive: pair(RINGS_RX, RINGS_RX_MAX), send: pair(RINGS_TX, RINGS_TX_MAX) })
    }

    /// Requests an interface to switch `offloads` off. The kernel may keep some on, so read
    /// [`offloads`](Self::offloads) again afterwards.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn switch_off(&mut self, interface: &str, offloads: &[String]) -> Result<(), NetlinkError> {
        // A listed bit without a value is cleared; unlisted bits keep their values.
        let bits =
            offloads.iter().map(|name| nest(BITSET_BITS_BIT, &[string(BIT_NAME, name)])).collect::<Vec<_>>();
        let wanted = nest(FEATURES_WANTED, &[nest(BITSET_BITS, &bits)]);
        self.0.ask(MSG_FEATURES_SET, vec![header(FEATURES_HEADER, interface), wanted]).map(drop)
    }
}

/// Whether a feature leaves checksums to hardware, or makes frames that are longer than those on the wire. Features are
/// recognised by patterns in their names, so that features of later kernels are included.
fn is_offload(feature: &str) -> bool {
    feature.starts_with("tx-checksum-")
        || feature.ends_with("-segmentation")
        || feature.contains("gso")
        || feature.contains("gro")
        || ["rx-checksum", "rx-lro"].contains(&feature)
}

/// The names of the set bits in a bitset without a mask.
fn names(bitset: &DefaultNla) -> Vec<String> {
    let inside = |attribute: &DefaultNla, wanted: u16| {
        attributes(&value(attribute)).into_iter().filter(move |inner| kind(inner) == wanted)
    };
    let bits = inside(bitset, BITSET_BITS).flat_map(|bits| inside(&bits, BITSET_BITS_BIT));
    let names = bits.flat_map(|bit| inside(&bit, BIT_NAME));
    names.map(|name| String::from_utf8_lossy(&value(&name)).trim_end_matches('\0').to_owned()).collect()
}

fn header(place: u16, interface: &str) -> DefaultNla {
    nest(place, &[string(HEADER_DEV_NAME, interface)])
}

#[cfg(test)]
mod tests {
    use super::is_offload;

    /// The names are from Linux's net/ethtool/common.c.
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
