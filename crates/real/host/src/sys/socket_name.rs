//! Socket addresses in the kernel's format.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Length of the longest socket address, `sockaddr_in6`.
pub(super) const NAME: usize = size_of::<libc::sockaddr_in6>();

/// Parses a `sockaddr_in` or `sockaddr_in6` (ip(7), ipv6(7)).
pub(super) fn decode_name(name: &[u8; NAME]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes([name[0], name[1]]));
    let port = u16::from_be_bytes([name[2], name[3]]);
    match family {
        libc::AF_INET => {
            let address: [u8; 4] = *name[4..].first_chunk()?;
            Some((Ipv4Addr::from(address), port).into())
        }
        libc::AF_INET6 => {
            let address: [u8; 16] = *name[8..].first_chunk()?;
            let scope = u32::from_ne_bytes(*name[24..].first_chunk()?);
            Some(SocketAddrV6::new(Ipv6Addr::from(address), port, 0, scope).into())
        }
        _ => None,
    }
}
