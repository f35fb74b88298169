//! A property that must hold for any bytes from an FTP server. `fuzz/` searches for counterexamples, and the test
//! `corpora` replays the corpus.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;

use netrig_core::Duration;
use netrig_host::socket::TcpOptions;
use netrig_probe::ProbeError;
use netrig_probe::transfer::{FtpOrder, converse};
use netrig_traffic::FtpDirection;

/// Number of bytes that are stored and fetched.
const BYTES: u64 = 100;

/// The server sends all bytes immediately, without waiting for commands, and then closes its direction. The session
/// succeeds or fails with an error of one line. This holds over both IP versions, which state the data port
/// differently, and in both directions. The data connection goes to this test, regardless of the port in the reply.
pub fn check(bytes: &[u8]) {
    sessions(bytes);
}

/// Runs four sessions and returns how many succeed.
pub fn sessions(bytes: &[u8]) -> usize {
    let mut succeeded = 0;
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(at).expect("loopback has both versions of IP");
        let server = listener.local_addr().expect("it is bound");
        for direction in [FtpDirection::Store, FtpDirection::Fetch] {
            succeeded += usize::from(succeeds(&listener, &order(server, direction), bytes));
        }
    }
    succeeded
}

fn order(server: SocketAddr, direction: FtpDirection) -> FtpOrder {
    FtpOrder {
        server,
        user: "anonymous".to_owned(),
        password: "netrig@".to_owned(),
        direction,
        file: "file".to_owned(),
        bytes: BYTES,
        options: TcpOptions::default(),
        dscp: 0,
        patience: Duration::from_secs(10),
    }
}

fn succeeds(listener: &TcpListener, order: &FtpOrder, says: &[u8]) -> bool {
    let (near, mut far) = pair(listener);
    let downloads = order.direction == FtpDirection::Fetch;
    let talk = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The client may close the connection early.
            let _ = far.write_all(says);
            let _ = far.shutdown(Shutdown::Write);
            let _ = far.read_to_end(&mut Vec::new());
        });
        let (other, held) = (listener.try_clone().expect("a descriptor"), Mutex::new(Vec::new()));
        converse(order, near, move |_| {
            let (near, mut far) = pair(&other);
            if downloads {
                far.write_all(&[7; BYTES as usize]).map_err(|error| error.to_string())?;
                far.shutdown(Shutdown::Write).map_err(|error| error.to_string())?;
            }
            // The stored bytes fit into the socket's buffer, so this end need not read them.
            held.lock().expect("nobody panics with it").push(far);
            Ok(near)
        })
    });
    match &talk {
        Ok(report) => {
            assert_eq!(report.bytes, BYTES);
            assert!(one_line(&report.greeting), "{:?}", report.greeting);
        }
        Err(ProbeError::Ftp { target, why, .. }) => {
            assert_eq!(*target, order.server);
            assert!(one_line(why), "{why:?}");
        }
        Err(other) => panic!("{other}: it is the server's fault"),
    }
    talk.is_ok()
}

/// Whether a text has at most 200 characters and no control characters.
fn one_line(text: &str) -> bool {
    text.chars().count() <= 200 && !text.contains(char::is_control)
}

/// Both ends of a new connection.
fn pair(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    let (far, _) = listener.accept().expect("somebody has connected");
    (near, far)
}
