//! What an interface does to frames by itself: ethtool's netlink (Documentation/networking/ethtool-netlink.rst).

use std::convert::Infallible;

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, Nla,
};
use netlink_sys::constants::NETLINK_GENERIC;

use super::{Conversation, Refusal, attributes, value};

/// `nlctrl`, who knows the numbers of the other families.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

const MSG_FEATURES_GET: u8 = 11;
const MSG_FEATURES_SET: u8 = 12;
const FEATURES_HEADER: u16 = 1;
const FEATURES_WANTED: u16 = 3;
const FEATURES_ACTIVE: u16 = 4;
const HEADER_DEV_NAME: u16 = 2;
const BITSET_BITS: u16 = 3;
const BITSET_BITS_BIT: u16 = 1;
const BIT_NAME: u16 = 2;

/// Length of a `genlmsghdr`: command, version and two bytes that mean nothing.
const GENERIC_HEADER: usize = 4;

/// A conversation about the interfaces of the calling thread's namespace.
pub(crate) struct Ethtool {
    conversation: Conversation,
    family: u16,
}

/// A message of generic netlink.
#[derive(Debug)]
struct Generic {
    family: u16,
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        GENERIC_HEADER + self.attributes.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // Version 1 of both families.
        buffer[..GENERIC_HEADER].copy_from_slice(&[self.command, 1, 0, 0]);
        self.attributes.as_slice().emit(&mut buffer[GENERIC_HEADER..]);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        let command = payload.first().copied().unwrap_or_default();
        let attributes = attributes(payload.get(GENERIC_HEADER..).unwrap_or_default());
        Ok(Self { family: header.message_type, command, attributes })
    }
}

impl Ethtool {
    /// Opens one in the namespace of the calling thread.
    pub(crate) fn open() -> Result<Self, Refusal> {
        let mut conversation = Conversation::open(NETLINK_GENERIC)?;
        let name = string(CTRL_ATTR_FAMILY_NAME, "ethtool");
        let question = Generic { family: CONTROL, command: CTRL_CMD_GETFAMILY, attributes: vec![name] };
        let answers = conversation.ask(question, 0)?;
        let number = answers.iter().flat_map(|answer| &answer.attributes);
        let number = number.filter(|attribute| attribute.kind() == CTRL_ATTR_FAMILY_ID).map(value).next();
        match number.as_deref() {
            Some(&[low, high]) => Ok(Self { conversation, family: u16::from_ne_bytes([low, high]) }),
            _ => Err(Refusal::Unreadable("the family `ethtool` has no number".into())),
        }
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

    fn ask(&mut self, command: u8, attributes: Vec<DefaultNla>) -> Result<Vec<Generic>, Refusal> {
        self.conversation.ask(Generic { family: self.family, command, attributes }, 0)
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

fn kind(attribute: &DefaultNla) -> u16 {
    attribute.kind() & !NLA_F_NESTED
}

fn string(kind: u16, text: &str) -> DefaultNla {
    DefaultNla::new(kind, [text.as_bytes(), &[0]].concat())
}

fn nest(kind: u16, inside: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; inside.buffer_len()];
    inside.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
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
