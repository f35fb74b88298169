//! Whether a program is ready.

use std::io;

use netrig_experiment::Ready;

/// What can be learned about a program.
pub(crate) trait ReadinessProbe {
    /// The process ID.
    fn pid(&self) -> u32;

    /// Whether it has written a line that contains this text.
    fn has_written(&self, text: &str) -> bool;

    /// Whether it answers SIP on this port.
    fn answers_sip(&self, port: u16, over_tcp: bool) -> io::Result<bool>;
}

/// Whether a program is ready: a socket listens on the port in its namespace, or the program answers there,
/// or it has written a line with the text.
pub(crate) fn is_so_for(ready: &Ready, program: &impl ReadinessProbe) -> io::Result<bool> {
    let pid = program.pid();
    let (transport, socket) = match ready {
        Ready::Says(text) => return Ok(program.has_written(text)),
        Ready::Sip { port, over_tcp } => return program.answers_sip(*port, *over_tcp),
        // TCP_LISTEN, and TCP_CLOSE, which is the state of an unconnected UDP socket.
        Ready::Tcp(port) => ("tcp", ListedSocket { port: *port, state: "0A" }),
        Ready::Udp(port) => ("udp", ListedSocket { port: *port, state: "07" }),
    };
    for version in ["", "6"] {
        match std::fs::read_to_string(format!("/proc/{pid}/net/{transport}{version}")) {
            Ok(sockets) if socket.is_among(&sockets) => return Ok(true),
            // The list is missing if the process has ended, or without IPv6.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// A socket in the kernel's lists.
#[derive(Clone, Copy)]
struct ListedSocket {
    port: u16,
    state: &'static str,
}

impl ListedSocket {
    /// Whether it is in a list like `/proc/net/tcp` (proc_net_tcp(5)). A line has a number, local address and
    /// port, remote address and port, and the state, in hexadecimal digits.
    fn is_among(self, sockets: &str) -> bool {
        let port = format!("{:04X}", self.port);
        sockets.lines().skip(1).any(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let local = words.next().and_then(|local| local.rsplit_once(':'));
            local.is_some_and(|(_, found)| found == port) && words.nth(1) == Some(self.state)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    /// From the example in Linux's Documentation/networking/proc_net_tcp.rst: ssh listens on port 22.
    #[test]
    fn listening_sockets_are_found_and_others_are_not() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
             0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n\
             1: 0500000A:0050 0600000A:9C40 01 00000000:00000000 00:00000000 00000000\n";
        let is_among = |port, state| ListedSocket { port, state }.is_among(tcp);
        assert!(is_among(22, "0A"));
        assert!(!is_among(80, "0A"), "a connection is not a listener");
        assert!(!is_among(22, "07"));
    }

    /// A process that wrote one line, and answers on one port.
    struct FakeProcess {
        pid: u32,
        says: &'static str,
    }

    impl ReadinessProbe for FakeProcess {
        fn pid(&self) -> u32 {
            self.pid
        }

        fn has_written(&self, text: &str) -> bool {
            text == self.says
        }

        fn answers_sip(&self, port: u16, over_tcp: bool) -> io::Result<bool> {
            Ok(port == 5060 && over_tcp)
        }
    }

    #[test]
    fn a_process_is_ready_when_it_listens_and_not_before() {
        let is_so =
            |ready: &Ready| is_so_for(ready, &FakeProcess { pid: std::process::id(), says: "" }).unwrap();
        let socket = UdpSocket::bind("[::1]:0").or_else(|_| UdpSocket::bind("127.0.0.1:0")).unwrap();
        let udp = Ready::Udp(socket.local_addr().unwrap().port());
        assert!(is_so(&udp));
        drop(socket);
        assert!(!is_so(&udp));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(is_so(&Ready::Tcp(listener.local_addr().unwrap().port())));
        let nobody = FakeProcess { pid: 0, says: "go" };
        assert!(is_so_for(&Ready::Says("go".into()), &nobody).unwrap());
        assert!(!is_so_for(&Ready::Tcp(1), &nobody).unwrap(), "nobody has that number");
        let sip = |over_tcp| is_so_for(&Ready::Sip { port: 5060, over_tcp }, &nobody).unwrap();
        assert!(sip(true) && !sip(false));
    }
}
