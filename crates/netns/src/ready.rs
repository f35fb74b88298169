//! Whether a program is ready to be talked to.

use std::fmt;
use std::io;
use std::str::FromStr;

/// What a program does once it is ready: it has a socket on a port, written `udp:5060` or `tcp:80`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// A TCP socket that takes connections.
    Tcp(u16),
    /// A UDP socket.
    Udp(u16),
}

impl fmt::Display for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(port) => write!(f, "tcp:{port}"),
            Self::Udp(port) => write!(f, "udp:{port}"),
        }
    }
}

/// A text that is no [`Listening`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no port to listen on: expected `tcp:` or `udp:` and a number from 1 to 65535")]
pub struct NoPort(String);

impl FromStr for Listening {
    type Err = NoPort;

    fn from_str(text: &str) -> Result<Self, NoPort> {
        let (transport, port) = text.split_once(':').unwrap_or_default();
        let port = port.parse().ok().filter(|port| *port > 0);
        match (transport, port) {
            ("tcp", Some(port)) => Ok(Self::Tcp(port)),
            ("udp", Some(port)) => Ok(Self::Udp(port)),
            _ => Err(NoPort(text.to_owned())),
        }
    }
}

impl Listening {
    /// Whether somebody listens so in the namespace of process `pid`.
    pub(crate) fn is_so_for(self, pid: u32) -> io::Result<bool> {
        let transport = match self {
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
        };
        for version in ["", "6"] {
            match std::fs::read_to_string(format!("/proc/{pid}/net/{transport}{version}")) {
                Ok(sockets) if self.is_among(&sockets) => return Ok(true),
                // A process that has ended has no namespace; one without IPv6 no such list.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Whether it is in a list of sockets as `/proc/net/tcp` has it (proc_net_tcp(5)): in each line, after a number,
    /// the local address and port, the remote one, and the state, in hexadecimal digits.
    fn is_among(self, sockets: &str) -> bool {
        let (port, state) = match self {
            // TCP_LISTEN, and what an unconnected UDP socket has: TCP_CLOSE.
            Self::Tcp(port) => (port, "0A"),
            Self::Udp(port) => (port, "07"),
        };
        let port = format!("{port:04X}");
        sockets.lines().skip(1).any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let local = words.next().and_then(|local| local.rsplit_once(':'));
            local.is_some_and(|(_, found)| found == port) && words.nth(1) == Some(state)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Listening;

    #[test]
    fn ports_are_read_as_they_are_written() {
        for text in ["udp:5060", "tcp:80"] {
            assert_eq!(text.parse::<Listening>().map(|port| port.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "udp", "udp:", "udp:0", "udp:65536", "sctp:5060", "5060"] {
            assert!(text.parse::<Listening>().is_err(), "{text}");
        }
    }

    /// Lines of the example in Linux's Documentation/networking/proc_net_tcp.rst: ssh listens on port 22.
    #[test]
    fn listening_sockets_are_found_and_others_are_not() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
             0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n\
             1: 0500000A:0050 0600000A:9C40 01 00000000:00000000 00:00000000 00000000\n";
        assert!(Listening::Tcp(22).is_among(tcp));
        assert!(!Listening::Tcp(80).is_among(tcp), "a connection is not a listener");
        assert!(!Listening::Udp(22).is_among(tcp));
    }
}
