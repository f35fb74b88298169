//! The kernel's path manager of Multipath TCP (Documentation/netlink/specs/mptcp_pm.yaml). It defines which
//! addresses of a namespace connections use, and how many subflows a connection may have.

use std::net::IpAddr;

use netlink_packet_core::DefaultNla;
use netrig_host::netlink::attributes;
use netrig_host::netlink::generic::{GenericFamily, GenericMessage, content, nest, number, word};

use super::NetlinkError;

const CMD_ADD_ADDR: u8 = 1;
const CMD_GET_ADDR: u8 = 3;
const CMD_SET_LIMITS: u8 = 5;
const CMD_GET_LIMITS: u8 = 6;

const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;

const ADDR_ATTR_FAMILY: u16 = 1;
const ADDR_ATTR_ADDR4: u16 = 3;
const ADDR_ATTR_ADDR6: u16 = 4;
const ADDR_ATTR_FLAGS: u16 = 6;

const FLAG_SIGNAL: u32 = 1;
const FLAG_SUBFLOW: u32 = 1 << 1;
const FLAG_BACKUP: u32 = 1 << 2;

/// An address that connections use in addition to their first address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MptcpEndpoint {
    pub(crate) address: IpAddr,
    pub(crate) role: MptcpRole,
    /// Whether its subflows carry data only while no other subflow can (RFC 8684 section 3.3.8).
    pub(crate) backup: bool,
}

/// The use of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MptcpRole {
    /// The address is announced to the peer, which opens a subflow to it (ADD_ADDR, RFC 8684 section 3.4.1).
    Signal,
    /// A subflow is opened from the address to the peer's first address.
    Subflow,
}

/// Limits of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MptcpLimits {
    /// Maximum number of subflows in addition to the first.
    pub(crate) subflows: u32,
    /// Maximum number of addresses announced by the peer that are used.
    pub(crate) addresses_accepted: u32,
}

/// A netlink socket for the path manager of a namespace.
pub(crate) struct PathManager(GenericFamily);

impl PathManager {
    /// Opens the socket in the namespace of the calling thread.
    pub(crate) fn open() -> Result<Self, NetlinkError> {
        GenericFamily::open("mptcp_pm").map(Self)
    }

    pub(crate) fn add(&mut self, endpoint: &MptcpEndpoint) -> Result<(), NetlinkError> {
        self.0.ask(CMD_ADD_ADDR, vec![endpoint.attribute()]).map(drop)
    }

    /// The addresses in the order of their identifiers.
    pub(crate) fn endpoints(&mut self) -> Result<Vec<MptcpEndpoint>, NetlinkError> {
        let answers = self.0.list(CMD_GET_ADDR, Vec::new())?;
        answers.iter().map(MptcpEndpoint::of).collect()
    }

    pub(crate) fn set_limits(&mut self, limits: MptcpLimits) -> Result<(), NetlinkError> {
        let MptcpLimits { subflows, addresses_accepted } = limits;
        let limits = vec![word(ATTR_RCV_ADD_ADDRS, addresses_accepted), word(ATTR_SUBFLOWS, subflows)];
        self.0.ask(CMD_SET_LIMITS, limits).map(drop)
    }

    pub(crate) fn limits(&mut self) -> Result<MptcpLimits, NetlinkError> {
        let answers = self.0.ask(CMD_GET_LIMITS, Vec::new())?;
        let found: Vec<_> = answers.into_iter().flat_map(|answer| answer.attributes).collect();
        let limit = |kind| {
            number(&found, kind)
                .ok_or_else(|| NetlinkError::Unreadable("a limit of subflows is missing".into()))
        };
        Ok(MptcpLimits { subflows: limit(ATTR_SUBFLOWS)?, addresses_accepted: limit(ATTR_RCV_ADD_ADDRS)? })
    }
}

impl MptcpEndpoint {
    fn attribute(&self) -> DefaultNla {
        let role = match self.role {
            MptcpRole::Signal => FLAG_SIGNAL,
            MptcpRole::Subflow => FLAG_SUBFLOW,
        };
        let (family, address) = match self.address {
            IpAddr::V4(v4) => (libc::AF_INET, DefaultNla::new(ADDR_ATTR_ADDR4, v4.octets().to_vec())),
            IpAddr::V6(v6) => (libc::AF_INET6, DefaultNla::new(ADDR_ATTR_ADDR6, v6.octets().to_vec())),
        };
        // Numbers of address families are below 100.
        let family = DefaultNla::new(ADDR_ATTR_FAMILY, (family as u16).to_ne_bytes().to_vec());
        let flags = word(ADDR_ATTR_FLAGS, role | if self.backup { FLAG_BACKUP } else { 0 });
        nest(ATTR_ADDR, &[family, address, flags])
    }

    /// Parses an answer.
    fn of(answer: &GenericMessage) -> Result<Self, NetlinkError> {
        let unreadable =
            || NetlinkError::Unreadable("an address of the path manager has an unknown format".into());
        let nested = attributes(&content(&answer.attributes, ATTR_ADDR).ok_or_else(unreadable)?);
        let bytes = |kind| content(&nested, kind);
        let v4 = bytes(ADDR_ATTR_ADDR4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()).map(IpAddr::from);
        let v6 = bytes(ADDR_ATTR_ADDR6).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()).map(IpAddr::from);
        let address = v4.or(v6).ok_or_else(unreadable)?;
        let flags = number(&nested, ADDR_ATTR_FLAGS).ok_or_else(unreadable)?;
        let role = match flags & !FLAG_BACKUP {
            FLAG_SIGNAL => MptcpRole::Signal,
            FLAG_SUBFLOW => MptcpRole::Subflow,
            _ => return Err(unreadable()),
        };
        Ok(Self { address, role, backup: flags & FLAG_BACKUP != 0 })
    }
}
