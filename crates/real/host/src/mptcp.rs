//! The kernel's state of a Multipath TCP connection (`MPTCP_INFO`) and of each subflow (`MPTCP_TCPINFO` and
//! `MPTCP_SUBFLOW_ADDRS`, include/uapi/linux/mptcp.h).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use crate::sys::option_bytes;
use crate::tcp_info::{TcpCounts, TcpInfo};

const SOL_MPTCP: i32 = 284;
const MPTCP_INFO: i32 = 1;
const MPTCP_TCPINFO: i32 = 2;
const MPTCP_SUBFLOW_ADDRS: i32 = 3;

/// Maximum number of subflows that are read, which is more than a connection can have: MPTCP_SUBFLOWS_MAX is 8, and the
/// first subflow does not count.
const MOST: usize = 16;
/// Length of a `struct mptcp_subflow_data`, which precedes the data of the subflows.
const HEADER: usize = 16;
/// Space for a `struct tcp_info`, bytes. An older kernel fills only the first bytes.
const INFO: usize = 256;
/// Length of a `sockaddr_storage`.
const ADDRESS: usize = 128;

/// A reading of `MPTCP_INFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpInfo {
    /// Whether the connection fell back to TCP (RFC 8684 section 3.7).
    pub fell_back: bool,
    /// Whether all sent data is acknowledged, including the end of the data (DATA_FIN).
    pub all_acknowledged: bool,
}

impl MptcpInfo {
    /// Reads the state from the kernel.
    ///
    /// # Errors
    /// If the socket is not Multipath TCP, or fell back to TCP.
    pub fn read(socket: impl AsFd) -> io::Result<Self> {
        let mut bytes = [0; 128];
        let len = option_bytes(socket, SOL_MPTCP, MPTCP_INFO, &mut bytes)?;
        Self::parse(&bytes[..len.min(128)]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Parses the fields by their offsets.
    fn parse(bytes: &[u8]) -> Option<Self> {
        const FLAGS: usize = 8;
        const FELL_BACK: u32 = 1;
        const WRITE_SEQ: usize = 16;
        const SND_UNA: usize = 24;
        let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let flags = u32::from_ne_bytes(*bytes.get(FLAGS..)?.first_chunk()?);
        Some(Self { fell_back: flags & FELL_BACK != 0, all_acknowledged: long(WRITE_SEQ)? == long(SND_UNA)? })
    }
}

/// One subflow of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Subflow {
    /// Local address.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// The kernel's state of the subflow.
    pub info: TcpInfo,
}

impl Subflow {
    /// The current subflows of a connection.
    ///
    /// # Errors
    /// If the socket is not Multipath TCP.
    pub fn all(socket: impl AsFd) -> io::Result<Vec<Self>> {
        let ends = subflow_option(&socket, MPTCP_SUBFLOW_ADDRS, 2 * ADDRESS)?;
        let infos = subflow_option(&socket, MPTCP_TCPINFO, INFO)?;
        // If a subflow was added or removed between the two calls, the two lists do not match.
        if ends.len() != infos.len() {
            return Ok(Vec::new());
        }
        let subflows = ends.iter().zip(infos).filter_map(|(ends, info)| {
            let (local, remote) = ends.split_at_checked(ADDRESS)?;
            Some(Self { local: address(local)?, remote: address(remote)?, info: TcpInfo::parse(&info) })
        });
        Ok(subflows.collect())
    }
}

/// Reads an option that contains data of each subflow, up to `size` bytes per subflow.
fn subflow_option(socket: impl AsFd, option: i32, size: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut bytes = vec![0; HEADER + MOST * size];
    // The header contains the offset of the data and the space per subflow. The kernel fills the other two words.
    let header = [HEADER as u32, 0, 0, size as u32];
    for (place, word) in bytes.chunks_exact_mut(4).zip(header) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    option_bytes(socket, SOL_MPTCP, option, &mut bytes)?;
    let word = |n: usize| u32::from_ne_bytes([bytes[n], bytes[n + 1], bytes[n + 2], bytes[n + 3]]) as usize;
    let (count, kernel) = (word(4), word(8));
    // The distance between the data of two subflows is the smaller of the kernel's size and our size.
    let each = size.min(kernel).max(1);
    Ok(bytes[HEADER..].chunks_exact(each).take(count.min(MOST)).map(<[u8]>::to_vec).collect())
}

/// Reads a `sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let ip: IpAddr = match family {
        libc::AF_INET => Ipv4Addr::from(*bytes.get(4..)?.first_chunk::<4>()?).into(),
        libc::AF_INET6 => Ipv6Addr::from(*bytes.get(8..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    Some((ip, port).into())
}

/// Counts of all subflows of a connection, including closed subflows, with the counts of their last reading.
#[derive(Clone, Debug, Default)]
pub struct SubflowCounts(Vec<(SocketAddr, SocketAddr, TcpCounts)>);

impl SubflowCounts {
    /// Records the counts of the current subflows, and returns the sum over all current and closed subflows.
    pub fn update(&mut self, standing: &[Subflow]) -> TcpCounts {
        for Subflow { local, remote, info } in standing {
            match self.0.iter_mut().find(|(l, r, _)| (l, r) == (local, remote)) {
                Some((_, _, counts)) => *counts = info.counts,
                None => self.0.push((*local, *remote, info.counts)),
            }
        }
        let mut sum = TcpCounts::default();
        self.0.iter().for_each(|(_, _, counts)| sum += counts);
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_told_by_the_places_of_its_fields() {
        let mut bytes = [0; 40];
        bytes[16..24].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[24..32].copy_from_slice(&76_u64.to_ne_bytes());
        let info = MptcpInfo::parse(&bytes).unwrap();
        assert_eq!(info, MptcpInfo { fell_back: false, all_acknowledged: false });
        bytes[24..32].copy_from_slice(&77_u64.to_ne_bytes());
        bytes[8] = 1;
        let info = MptcpInfo::parse(&bytes).unwrap();
        assert_eq!(info, MptcpInfo { fell_back: true, all_acknowledged: true });
        assert_eq!(MptcpInfo::parse(&bytes[..20]), None);
    }

    #[test]
    fn addresses_of_both_versions_of_ip_are_read() {
        let mut bytes = [0; ADDRESS];
        bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        bytes[2..8].copy_from_slice(&[0x13, 0x89, 10, 0, 0, 5]);
        assert_eq!(address(&bytes), Some("10.0.0.5:5001".parse().unwrap()));
        bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        bytes[8..24].copy_from_slice(&"fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(address(&bytes), Some("[fd00::2]:5001".parse().unwrap()));
        assert_eq!((address(&[0; ADDRESS]), address(&bytes[..10])), (None, None));
    }

    #[test]
    fn what_a_subflow_has_counted_outlives_it() {
        let subflow = |port, segments_sent| {
            let mut info = TcpInfo::default();
            info.counts = TcpCounts { segments_sent, ..TcpCounts::default() };
            Subflow { local: ([10, 0, 0, 1], port).into(), remote: ([10, 0, 0, 2], 5001).into(), info }
        };
        let mut counts = SubflowCounts::default();
        assert_eq!(counts.update(&[subflow(1, 10), subflow(2, 5)]).segments_sent, 15);
        assert_eq!(counts.update(&[subflow(2, 8)]).segments_sent, 18);
        assert_eq!(counts.update(&[subflow(3, 1), subflow(2, 9)]).segments_sent, 20);
    }
}
