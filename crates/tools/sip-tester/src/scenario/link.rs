//! Messages between the processes of a test (SIPp's 3PCC): texts over TCP, each followed by an ESC byte.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration as StdDuration;

use netrig_sip_net::{flush_bytes, read_bytes};

/// The byte after each message.
const END: u8 = 27;

/// The largest number of bytes of unsent messages, and of an incomplete received message.
const MOST_WAITING: usize = 1 << 20;

/// The largest number of connected processes.
const MOST_PEERS: usize = 64;

/// Time limit for connecting to another process.
const CONNECTS_WITHIN: StdDuration = StdDuration::from_secs(10);

/// How the processes of a test connect to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkOrder {
    /// Two processes (SIPp's `-3pcc`). The process whose scenario begins with a message to the other process connects;
    /// the other one listens.
    Pair {
        /// The listening address.
        address: SocketAddr,
        /// Whether this process listens.
        listens: bool,
    },
    /// Several processes with names (SIPp's `-master`, `-slave` and `-slave_cfg`).
    Named {
        /// The name of this process.
        own: String,
        /// The listening addresses by name.
        addresses: BTreeMap<String, SocketAddr>,
    },
}

impl LinkOrder {
    /// The addresses of named processes: `NAME;HOST:PORT` on each line.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1.
    pub fn addresses(text: &str) -> Result<BTreeMap<String, SocketAddr>, usize> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = (1_usize..).zip(text.lines()).map(|(number, line)| (number, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = lines.map(|(number, line)| {
            let (name, address) = line.split_once(';').ok_or(number)?;
            let address = address.trim().trim_end_matches(';').parse().map_err(|_| number)?;
            Ok((name.trim().to_owned(), address))
        });
        read.collect()
    }
}

#[derive(Debug)]
struct LinkPeer {
    name: Option<String>,
    stream: TcpStream,
    came: Vec<u8>,
    unsent: Vec<u8>,
}

/// The connections to the other processes.
#[derive(Debug)]
pub(super) struct ScriptLink {
    order: LinkOrder,
    listener: Option<TcpListener>,
    peers: Vec<LinkPeer>,
}

impl ScriptLink {
    /// Listens or connects.
    ///
    /// # Errors
    /// The error of the system, with the address.
    pub fn open(order: LinkOrder) -> Result<Self, String> {
        let mut link = Self { order: order.clone(), listener: None, peers: Vec::new() };
        let listens_at = match &order {
            LinkOrder::Pair { address, listens: true } => Some(*address),
            LinkOrder::Pair { .. } => None,
            LinkOrder::Named { own, addresses } => {
                let address = addresses.get(own);
                Some(*address.ok_or_else(|| format!("the list of processes has no `{own}`"))?)
            }
        };
        if let Some(address) = listens_at {
            let fault = |error: io::Error| format!("cannot listen at {address}: {error}");
            let listener = TcpListener::bind(address).map_err(fault)?;
            listener.set_nonblocking(true).map_err(fault)?;
            link.listener = Some(listener);
        }
        if let LinkOrder::Pair { address, listens: false } = order {
            link.connect(None, address)?;
        }
        Ok(link)
    }

    fn connect(&mut self, name: Option<String>, address: SocketAddr) -> Result<usize, String> {
        let fault = |error: io::Error| format!("no connection to the process at {address}: {error}");
        let stream = TcpStream::connect_timeout(&address, CONNECTS_WITHIN).map_err(fault)?;
        stream.set_nonblocking(true).map_err(fault)?;
        stream.set_nodelay(true).map_err(fault)?;
        self.peers.push(LinkPeer { name, stream, came: Vec::new(), unsent: Vec::new() });
        Ok(self.peers.len() - 1)
    }

    /// Sends a message to the process with this name, or to the only other process if `to` is `None`.
    ///
    /// # Errors
    /// If there is no such process, or it does not accept the message.
    pub fn send(&mut self, to: Option<&str>, text: &str) -> Result<(), String> {
        let known = self.peers.iter().position(|peer| to.is_none() || peer.name.as_deref() == to);
        let place = match (known, to, &self.order) {
            (Some(place), ..) => place,
            (None, Some(name), LinkOrder::Named { addresses, .. }) => {
                let address = addresses.get(name).copied();
                let address = address.ok_or_else(|| format!("the list of processes has no `{name}`"))?;
                self.connect(Some(name.to_owned()), address)?
            }
            _ => return Err("no other process of the test is connected".to_owned()),
        };
        let peer = &mut self.peers[place];
        if peer.unsent.len() + text.len() > MOST_WAITING {
            return Err("the other process does not accept messages".to_owned());
        }
        peer.unsent.extend_from_slice(text.as_bytes());
        peer.unsent.push(END);
        peer.flush();
        Ok(())
    }

    /// Received messages, each with the name of the process from its From line.
    pub fn receive(&mut self) -> Vec<(Option<String>, String)> {
        if let Some(listener) = &self.listener {
            while let Ok((stream, _)) = listener.accept() {
                if self.peers.len() < MOST_PEERS && stream.set_nonblocking(true).is_ok() {
                    self.peers.push(LinkPeer { name: None, stream, came: Vec::new(), unsent: Vec::new() });
                }
            }
        }
        let mut messages = Vec::new();
        self.peers.retain_mut(|peer| {
            peer.flush();
            peer.receive(&mut messages)
        });
        messages
    }

    /// The descriptors to poll, each with whether to wait until it is writable.
    pub fn watched(&self) -> Vec<(BorrowedFd<'_>, bool)> {
        let listener = self.listener.iter().map(|listener| (listener.as_fd(), false));
        let peers = self.peers.iter().map(|peer| (peer.stream.as_fd(), !peer.unsent.is_empty()));
        listener.chain(peers).collect()
    }
}

impl LinkPeer {
    fn flush(&mut self) {
        // An error is found when the connection is read.
        let _ = flush_bytes(&mut self.stream, &mut self.unsent);
    }

    /// Reads the available bytes, and adds complete messages to `messages`. Returns false if the connection has ended.
    fn receive(&mut self, messages: &mut Vec<(Option<String>, String)>) -> bool {
        let stands = read_bytes(&mut self.stream, &mut self.came, MOST_WAITING + 1).unwrap_or(false)
            && self.came.len() <= MOST_WAITING;
        while let Some(place) = self.came.iter().position(|byte| *byte == END) {
            let message: Vec<u8> = self.came.drain(..=place).collect();
            let text = String::from_utf8_lossy(&message[..place]).into_owned();
            let from = text.lines().find_map(|line| {
                let (name, value) = line.trim().split_once(':')?;
                name.eq_ignore_ascii_case("from").then(|| value.trim().to_owned())
            });
            if self.name.is_none() {
                self.name.clone_from(&from);
            }
            messages.push((from, text));
        }
        stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_it_came(link: &mut ScriptLink) -> Vec<(Option<String>, String)> {
        loop {
            let came = link.receive();
            if !came.is_empty() {
                return came;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn two_processes_tell_each_other_messages() {
        let any = "127.0.0.1:0".parse().unwrap();
        let mut first = ScriptLink::open(LinkOrder::Pair { address: any, listens: true }).unwrap();
        let address = first.listener.as_ref().unwrap().local_addr().unwrap();
        let mut second = ScriptLink::open(LinkOrder::Pair { address, listens: false }).unwrap();
        second.send(None, "Call-ID: 1\r\nFrom: m\r\n").unwrap();
        second.send(None, "Call-ID: 2\r\n").unwrap();
        let mut came = until_it_came(&mut first);
        while came.len() < 2 {
            came.extend(until_it_came(&mut first));
        }
        assert_eq!(came[0], (Some("m".to_owned()), "Call-ID: 1\r\nFrom: m\r\n".to_owned()));
        assert_eq!(came[1], (None, "Call-ID: 2\r\n".to_owned()));
        first.send(None, "back").unwrap();
        assert_eq!(until_it_came(&mut second), [(None, "back".to_owned())]);
    }

    #[test]
    fn a_list_of_processes_is_read() {
        let read = LinkOrder::addresses("# both\ns1;127.0.0.1:8080\nm;127.0.0.1:8081\n").unwrap();
        assert_eq!(read["m"], "127.0.0.1:8081".parse().unwrap());
        assert_eq!(LinkOrder::addresses("s1;127.0.0.1:8080\nm 127.0.0.1\n"), Err(2));
        let order = LinkOrder::Named { own: "x".to_owned(), addresses: read };
        assert!(ScriptLink::open(order).unwrap_err().contains("no `x`"));
    }
}
