//! A server that runs while something is done with it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_host::socket::TcpOptions;
use netrig_host::tls::{self, Trust};
use netrig_probe::stamp::HmacKey;
use netrig_speed::admission::AdmissionLimits;
use netrig_speed::measure::CallOrder;
use netrig_speed::protocol::Keyring;
use netrig_speed::serve::{Server, ServerOrder};

/// A server on loopback without a key, for so many at once.
pub fn order(at_once: usize) -> ServerOrder {
    ServerOrder {
        listen: vec![(Ipv4Addr::LOCALHOST, 0).into()],
        iperf3: Vec::new(),
        keys: Keyring::default(),
        open: false,
        origins: Vec::new(),
        identity: None,
        limits: AdmissionLimits { sessions: at_once, per_household: at_once, ..AdmissionLimits::default() },
        connections_per_address: None,
        connections_per_group: None,
    }
}

/// A client's order for a server of an unknown certificate.
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

/// Runs a server while `with` does something with its address.
pub fn serving<T>(order: ServerOrder, with: impl FnOnce(SocketAddr, &Server) -> T) -> T {
    let server = Server::open(order).unwrap();
    let address = server.addresses()[0];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.serve(&stop));
        // Whatever comes of it, the server ends, or its thread would be waited for.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(address, &server)));
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap().unwrap();
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits until it is so.
#[allow(dead_code, reason = "not every test waits")]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = StdInstant::now();
    while !is_so() {
        assert!(begun.elapsed() < StdDuration::from_secs(60), "{what}");
        std::thread::sleep(StdDuration::from_millis(5));
    }
}
