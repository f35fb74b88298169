//! Generic netlink families (Documentation/networking/netlink_spec, `genetlink`). The kernel assigns a number to the
//! name of each family. A message has a command and attributes.

use std::convert::Infallible;

use netlink_packet_core::{
    DefaultNla, Emitable, NLA_F_NESTED, NLM_F_DUMP, NetlinkDeserializable, NetlinkHeader,
    NetlinkSerializable, Nla,
};
use netlink_sys::constants::NETLINK_GENERIC;

use super::{NetlinkError, NetlinkSocket, attributes, value};

/// Number of the family `nlctrl`, which reports the numbers of the other families.
const CONTROL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// Length of a `genlmsghdr`: command, version and two reserved bytes.
const HEADER: usize = 4;

/// A socket for one family, in the calling thread's namespace.
#[derive(Debug)]
pub struct GenericFamily {
    conversation: NetlinkSocket,
    number: u16,
}

/// A message of generic netlink.
#[derive(Debug)]
pub struct GenericMessage {
    family: u16,
    command: u8,
    /// Attributes of the message.
    pub attributes: Vec<DefaultNla>,
}

impl NetlinkSerializable for GenericMessage {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEADER + self.attributes.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        // All families used here have version 1.
        buffer[..HEADER].copy_from_slice(&[self.command, 1, 0, 0]);
        self.attributes.as_slice().emit(&mut buffer[HEADER..]);
    }
}

impl NetlinkDeserializable for GenericMessage {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        let command = payload.first().copied().unwrap_or_default();
        let attributes = attributes(payload.get(HEADER..).unwrap_or_default());
        Ok(Self { family: header.message_type, command, attributes })
    }
}

impl GenericFamily {
    /// Opens a socket for the family `name` in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn open(name: &str) -> Result<Self, NetlinkError> {
        let mut conversation = NetlinkSocket::open(NETLINK_GENERIC)?;
        let named = string(CTRL_ATTR_FAMILY_NAME, name);
        let question =
            GenericMessage { family: CONTROL, command: CTRL_CMD_GETFAMILY, attributes: vec![named] };
        let answers = conversation.ask(question, 0)?;
        let number = answers.iter().find_map(|answer| number(&answer.attributes, CTRL_ATTR_FAMILY_ID));
        match number.and_then(|number| u16::try_from(number).ok()) {
            Some(number) => Ok(Self { conversation, number }),
            None => Err(NetlinkError::Unreadable(format!("the family `{name}` has no number"))),
        }
    }

    /// Sends a command and returns the answers.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn ask(
        &mut self,
        command: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<GenericMessage>, NetlinkError> {
        self.conversation.ask(GenericMessage { family: self.number, command, attributes }, 0)
    }

    /// Sends a command whose answer is a list.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn list(
        &mut self,
        command: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<Vec<GenericMessage>, NetlinkError> {
        let question = GenericMessage { family: self.number, command, attributes };
        self.conversation.ask(question, NLM_F_DUMP)
    }
}

/// The type of an attribute, without the flag of nested attributes.
pub fn kind(attribute: &DefaultNla) -> u16 {
    attribute.kind() & !NLA_F_NESTED
}

/// An attribute with a zero-terminated text.
pub fn string(kind: u16, text: &str) -> DefaultNla {
    DefaultNla::new(kind, [text.as_bytes(), &[0]].concat())
}

/// An attribute with nested attributes.
pub fn nest(kind: u16, inside: &[DefaultNla]) -> DefaultNla {
    let mut bytes = vec![0; inside.buffer_len()];
    inside.emit(&mut bytes);
    DefaultNla::new(kind | NLA_F_NESTED, bytes)
}

/// An attribute with a number of 32 bits.
pub fn word(kind: u16, number: u32) -> DefaultNla {
    DefaultNla::new(kind, number.to_ne_bytes().to_vec())
}

/// The content of the first attribute of this type.
pub fn content(attributes: &[DefaultNla], wanted: u16) -> Option<Vec<u8>> {
    attributes.iter().find(|attribute| kind(attribute) == wanted).map(value)
}

/// The number in the first attribute of this type, with 8, 16 or 32 bits.
pub fn number(attributes: &[DefaultNla], wanted: u16) -> Option<u32> {
    match content(attributes, wanted)?[..] {
        [one] => Some(one.into()),
        [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d])),
        _ => None,
    }
}
