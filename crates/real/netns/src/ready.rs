//! Checks whether a program is ready.

use std::io;

use netrig_experiment::Ready;
use netrig_host::proc::SocketLine;

/// Observations of a program that show whether it is ready.
pub(crate) trait ReadinessProbe {
    /// The process ID.
    fn pid(&self) -> u32;

    /// Whether the program has written a line that contains this text.
    fn has_written(&self, text: &str) -> bool;

    /// Whether the program answers SIP on this port.
    fn answers_sip(&self, port: u16, over_tcp: bool) -> io::Result<bool>;
}

/// Whether a program meets its condition `ready`: a socket in its namespace listens on a port, the program
/// answers SIP on a port, or it has written a line with a text.
pub(crate) fn is_so_for(ready: &Ready, program: &impl ReadinessProbe) -> io::Result<bool> {
    let pid = program.pid();
    let (transport, port, state) = match ready {
        Ready::Says(text) => return Ok(program.has_written(text)),
        Ready::Sip { port, over_tcp } => return program.answers_sip(*port, *over_tcp),
        // TCP_LISTEN, and TCP_CLOSE, which is the state of an unconnected UDP socket.
        Ready::Tcp(port) => ("tcp", *port, 10),
        Ready::Udp(port) => ("udp", *port, 7),
    };
    for version in ["", "6"] {
        match std::fs::read_to_string(format!("/proc/{pid}/net/{transport}{version}")) {
            Ok(list) if SocketLine::all(&list).any(|socket| (socket.port, socket.state) == (port, state)) => {
                return Ok(true);
            }
            // The list is missing if the process has ended or the kernel has no IPv6.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    /// A process that has written one line and answers SIP on one port.
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
