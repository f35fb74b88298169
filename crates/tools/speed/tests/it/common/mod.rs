//! Helpers that run a server during a test.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_host::ConnectionLimits;
use netrig_host::socket::TcpOptions;
use netrig_host::tls::{self, Trust};
use netrig_probe::stamp::HmacKey;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::measure::CallOrder;
use netrig_speed::protocol::Keyring;
use netrig_speed::request::SpeedServerSettings;
use netrig_speed::serve::{Server, ServerOrder};

/// The order for a server on loopback without a key, for `at_once` concurrent sessions.
pub fn order(at_once: usize) -> ServerOrder {
    ServerOrder {
        settings: listening_at(Ipv4Addr::LOCALHOST),
        limits: AdmissionLimits { sessions: at_once, per_address: at_once, ..AdmissionLimits::default() },
        connections: ConnectionLimits::default(),
        keys: Keyring::default(),
    }
}

/// The settings of a server at this address and at a free port.
pub fn listening_at(host: impl Into<IpAddr>) -> SpeedServerSettings {
    let host: IpAddr = host.into();
    let listen = vec![host.into()];
    SpeedServerSettings { listen, port: 0, ..SpeedServerSettings::default() }
}

/// The order of a client that accepts any certificate.
pub fn call_order(server: SocketAddr, key: Option<HmacKey>) -> CallOrder {
    CallOrder {
        server,
        name: server.ip().into(),
        tls: tls::client(&Trust::Anyone, None).unwrap(),
        key,
        rate: None,
        options: TcpOptions::default(),
    }
}

/// Runs a server until `with`, which gets its address, returns.
pub fn serving<T>(order: ServerOrder, with: impl FnOnce(SocketAddr, &Server) -> T) -> T {
    let server = Server::open(order).unwrap();
    let address = server.addresses()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop));
        // The server must end even if `with` panics. Otherwise the scope would wait for its thread forever.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(address, &server)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits until `is_so` returns true. Panics with `what` after a minute.
#[allow(dead_code, reason = "not every test waits")]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = StdInstant::now();
    while !is_so() {
        assert!(begun.elapsed() < StdDuration::from_secs(60), "{what}");
        std::thread::sleep(StdDuration::from_millis(5));
    }
}
