//! Tests of a server's time limits with malicious clients. A client that sends one byte at a time gains no time, and an
//! aborted session sends nothing more. The clients are implemented here, because netrig's own client does not behave in
//! this way.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_bulk::connect;
use netrig_core::{Duration, Size};
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::socket::{Buffers, SocketBuilder, TcpOptions};
use netrig_host::tls::{self, Trust};
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::protocol::{
    Budget, Carrier, DataDirection, DatagramLoad, EchoDatagram, FromClient, FromServer, MeasurementPhase,
    Preamble,
};
use netrig_speed::protocol::{EXPORTER, SPEED};
use netrig_speed::serve::{Server, ServerOrder};
use rustls::{ClientConnection, StreamOwned};

use crate::common::{order, serving, until};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client that sends single messages.
struct Client {
    stream: Stream,
    budget: Budget,
}

impl Client {
    fn connection() -> ClientConnection {
        let config = tls::client(&Trust::Anyone, None).unwrap();
        ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap()
    }

    fn let_in(server: SocketAddr) -> Self {
        Self::let_in_over(TcpStream::connect(server).unwrap())
    }

    fn let_in_over(socket: TcpStream) -> Self {
        let mut stream = StreamOwned::new(Self::connection(), socket);
        stream.conn.complete_io(&mut stream.sock).unwrap();
        let binding = stream.conn.export_keying_material([0; 32], EXPORTER, Some(&[])).unwrap();
        SPEED.greet_server(&mut stream, None, &binding).unwrap();
        write_frame(&mut stream, &FromClient::Ask { bits_per_s: None }).unwrap();
        let admitted = read_frame(&mut stream).unwrap().unwrap();
        let FromServer::Admitted(budget) = admitted else { panic!("{admitted:?}") };
        Self { stream, budget }
    }

    fn say(&mut self, words: &FromClient) {
        write_frame(&mut self.stream, words).unwrap();
    }

    fn hear(&mut self) -> FromServer {
        read_frame(&mut self.stream).unwrap().unwrap()
    }

    const fn preamble(&self, stream: u32) -> Preamble {
        Preamble { token: self.budget.token, phase: 1, stream }
    }

    /// Starts a phase. `open` creates its sockets.
    fn begin_with<T>(&mut self, phase: MeasurementPhase, open: impl FnOnce(&Self) -> T) -> T {
        self.say(&FromClient::Prepare(phase));
        assert_eq!(self.hear(), FromServer::Ready);
        let data = open(self);
        self.say(&FromClient::Begin);
        assert_eq!(self.hear(), FromServer::Begun);
        data
    }

    fn stream(&self, server: SocketAddr, number: u32) -> TcpStream {
        let mut stream = TcpStream::connect(server).unwrap();
        stream.write_all(&self.preamble(number).encode()).unwrap();
        stream
    }

    fn datagrams(&self, server: SocketAddr) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.send(&self.preamble(0).encode()).unwrap();
        socket.recv(&mut [0; 100]).unwrap();
        socket
    }

    /// Starts a download over a connection or with datagrams.
    fn begin(&mut self, server: SocketAddr, carrier: Carrier) -> Data {
        let phase = MeasurementPhase {
            number: 1,
            carrier: carrier.clone(),
            lasts_ns: 60_000_000_000,
            every_ns: 100_000_000,
        };
        let data = self.begin_with(phase, |client| match carrier {
            Carrier::Tcp { .. } => Data::Stream(client.stream(server, 0)),
            _ => Data::Datagrams(client.datagrams(server)),
        });
        assert!(data.comes_within(StdDuration::from_secs(5)), "data flows");
        data
    }
}

enum Data {
    Stream(TcpStream),
    Datagrams(UdpSocket),
}

impl Data {
    /// Whether data arrive within this time.
    fn comes_within(&self, patience: StdDuration) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let came = match self {
            Self::Stream(stream) => {
                stream.set_read_timeout(Some(patience)).unwrap();
                (&mut &*stream).read(&mut buffer)
            }
            Self::Datagrams(socket) => {
                socket.set_read_timeout(Some(patience)).unwrap();
                socket.recv(&mut buffer)
            }
        };
        came.is_ok_and(|len| len > 0)
    }

    /// Reads until no more data arrive. Panics if data keep arriving.
    fn falls_silent(&self) {
        let begun = StdInstant::now();
        while self.comes_within(StdDuration::from_secs(1)) {
            assert!(begun.elapsed() < StdDuration::from_secs(10), "it is still sent");
        }
    }
}

const fn downwards() -> [Carrier; 2] {
    let load = DatagramLoad::Fixed { bits_per_s: 20_000_000 };
    [
        Carrier::Tcp { way: DataDirection::Down, streams: 1, congestion: None },
        Carrier::Udp { way: DataDirection::Down, size: 1200, load },
    ]
}

fn with(limits: AdmissionLimits, client: impl FnOnce(SocketAddr, &Server)) {
    serving(ServerOrder { limits, ..order(4) }, client);
}

/// Sends one byte at a time until the connection breaks. Returns how long this took.
fn drip(socket: &mut TcpStream, bytes: impl Iterator<Item = u8>, pause: StdDuration) -> StdDuration {
    let begun = StdInstant::now();
    socket.set_read_timeout(Some(StdDuration::from_millis(1))).unwrap();
    let mut buffer = [0; 4096];
    for byte in bytes {
        let broken = socket.write_all(&[byte]).is_err();
        let gone = match socket.read(&mut buffer) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        };
        if broken || gone {
            return begun.elapsed();
        }
        assert!(begun.elapsed() < StdDuration::from_secs(40), "it is still listened to");
        std::thread::sleep(pause);
    }
    panic!("it took all bytes");
}

/// The bytes of a TLS 1.3 record whose header announces 16 KiB.
fn endless_record() -> impl Iterator<Item = u8> {
    [23, 3, 3, 0x40, 0].into_iter().chain(std::iter::repeat(0))
}

#[test]
fn a_client_that_hangs_up_is_sent_nothing_more() {
    for carrier in downwards() {
        with(order(4).limits, |address, server| {
            let mut client = Client::let_in(address);
            let data = client.begin(address, carrier.clone());
            drop(client);
            data.falls_silent();
            until("its place is free", || server.now().measuring == 0);
        });
    }
}

#[test]
fn a_client_that_has_had_enough_is_sent_nothing_more() {
    for carrier in downwards() {
        with(
            AdmissionLimits { max_size: Size::from_bytes(2_000_000), ..order(4).limits },
            |address, server| {
                let mut client = Client::let_in(address);
                let data = client.begin(address, carrier.clone());
                let why = loop {
                    if let FromServer::Failed { why } = client.hear() {
                        break why;
                    }
                    assert!(data.comes_within(StdDuration::from_secs(5)));
                };
                assert!(why.contains("exceeded its limit of bytes"), "{why}");
                data.falls_silent();
                until("its place is free", || server.now().measuring == 0);
            },
        );
    }
}

/// A client that sends single bytes of the handshake, and one that sends single bytes in place of the greeting, reach a
/// time limit.
#[test]
fn a_byte_at_a_time_takes_no_longer_than_all_at_once() {
    with(order(4).limits, |address, server| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut hello = Vec::new();
                Client::connection().write_tls(&mut hello).unwrap();
                let mut socket = TcpStream::connect(address).unwrap();
                let bytes = hello.into_iter().take(200);
                let borne = drip(&mut socket, bytes, StdDuration::from_millis(200));
                assert!(borne < StdDuration::from_secs(20), "{borne:?}");
            });
            scope.spawn(|| {
                let mut stream = StreamOwned::new(Client::connection(), TcpStream::connect(address).unwrap());
                stream.conn.complete_io(&mut stream.sock).unwrap();
                let borne = drip(&mut stream.sock, endless_record(), StdDuration::from_millis(50));
                assert!(borne < StdDuration::from_secs(20), "{borne:?}");
            });
        });
        until("both are gone", || server.now().connections == 0);
    });
}

/// A session does not become longer if its client sends single bytes on the control connection, or echoes from always
/// new ports.
#[test]
fn no_client_stays_longer_than_it_may() {
    let limits = AdmissionLimits { max_time: Duration::from_secs(6), ..order(4).limits };
    with(limits, |address, server| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = Client::let_in(address);
                let [carrier, _] = downwards();
                let data = client.begin(address, carrier);
                let borne = drip(&mut client.stream.sock, endless_record(), StdDuration::from_micros(500));
                assert!(borne < StdDuration::from_secs(15), "{borne:?}");
                data.falls_silent();
            });
            scope.spawn(|| {
                let mut client = Client::let_in(address);
                let [_, carrier] = downwards();
                let data = client.begin(address, carrier);
                let echo =
                    EchoDatagram { preamble: client.preamble(0), number: 0, sent_ns: 0, there_ns: [0; 2] };
                let begun = StdInstant::now();
                while data.comes_within(StdDuration::from_secs(1)) {
                    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
                    socket.send_to(&echo.encode(), address).unwrap();
                    std::thread::sleep(StdDuration::from_millis(5));
                    assert!(begun.elapsed() < StdDuration::from_secs(30), "its time does not end");
                }
            });
        });
        until("both are gone", || server.now().connections == 0);
    });
}

/// A server that must stop does not wait until a slow client has read its whole report.
#[test]
fn who_is_slow_to_hear_its_report_does_not_keep_the_server_from_ending() {
    const STREAMS: u16 = 128;
    let server = Server::open(order(1)).unwrap();
    let (address, stop) = (server.addresses()[0], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop));
        // With short segments, the kernels' buffers hold little data, so most of the report is still in the server.
        let buffers = Buffers { receive: Some(1 << 14), ..Buffers::default() };
        let options = TcpOptions { max_segment: Some(536), buffers, ..TcpOptions::default() };
        let local = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let socket = SocketBuilder::tcp(&options, 0, local).and_then(SocketBuilder::bound).unwrap();
        let socket = connect(socket, address, Duration::from_secs(5), &stop).unwrap();
        socket.set_nonblocking(false).unwrap();
        let mut client = Client::let_in_over(socket);
        let carrier = Carrier::Tcp { way: DataDirection::Up, streams: STREAMS, congestion: None };
        let (lasts_ns, every_ns) = (3_000_000_000, 10_000_000);
        let phase = MeasurementPhase { number: 1, carrier, lasts_ns, every_ns };
        let connect =
            |client: &Client| (0..STREAMS).map(|stream| client.stream(address, stream.into())).collect();
        let streams: Vec<_> = client.begin_with(phase, connect);

        // After this time, the report has several megabytes, far more than the kernel's buffers hold.
        std::thread::sleep(StdDuration::from_millis(2500));
        client.say(&FromClient::End { sent: None });
        while !matches!(client.hear(), FromServer::Counted(_)) {}
        stop.store(true, Ordering::Relaxed);
        // Meanwhile, the server notices the stop flag. It waits for the client, which does not read.
        std::thread::sleep(StdDuration::from_millis(500));
        let last = loop {
            match client.hear() {
                FromServer::Counted(_) => {}
                other => break other,
            }
        };
        let FromServer::Failed { why } = last else { panic!("{last:?}") };
        assert_eq!(why, "the server stops");
        drop(streams);
        serving.join().unwrap().unwrap();
    });
}

/// At the end of a phase, the server waits for datagrams in flight, and they count. If there are too many, the session
/// ends, not only the phase.
#[test]
fn who_floods_at_the_end_of_a_phase_is_cut_off_there() {
    with(AdmissionLimits { max_size: Size::from_bytes(5_000_000), ..order(4).limits }, |address, server| {
        let mut client = Client::let_in(address);
        let load = DatagramLoad::Fixed { bits_per_s: 1_000_000 };
        let carrier = Carrier::Udp { way: DataDirection::Up, size: 1200, load };
        let phase = MeasurementPhase { number: 1, carrier, lasts_ns: 60_000_000_000, every_ns: 20_000_000 };
        let socket = client.begin_with(phase, |client| client.datagrams(address));

        let over = AtomicBool::new(false);
        let last = std::thread::scope(|scope| {
            client.say(&FromClient::End { sent: None });
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // The server may have closed its socket already.
                    let _ = socket.send(&[0; 1200]);
                }
            });
            let last = loop {
                match client.hear() {
                    FromServer::Heard(_) => {}
                    other => break other,
                }
            };
            over.store(true, Ordering::Relaxed);
            last
        });
        let FromServer::Failed { why } = last else { panic!("{last:?}") };
        assert!(why.contains("exceeded its limit of bytes"), "{why}");
        until("its place is free", || server.now().measuring == 0);
    });
}
