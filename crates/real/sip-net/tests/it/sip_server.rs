//! A SIP server on the loopback interface, which runs in another thread until the end of a test.

use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use netrig_core::Seeds;
use netrig_host::tls::Identity;
use netrig_sip::header::Transport;
use netrig_sip::location::Zone;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::server::{Role, Server, ServerOrder};
use netrig_sip::transaction::Timing;
use netrig_sip_net::dns::NameServerOrder;
use netrig_sip_net::server::{Limits, Names, PartitionedSockets, Sockets, SocketsOrder, Tally};

/// A server that ends with the test.
pub struct Running {
    /// The listening addresses.
    pub listens: Vec<(Transport, SocketAddr)>,
    cancel: Arc<AtomicBool>,
    thread: Option<JoinHandle<Tally>>,
}

impl Running {
    /// Starts the server of an order.
    pub fn start(sockets: SocketsOrder, order: ServerOrder) -> Self {
        Self::with(sockets, move |listens| order.server(listens).unwrap())
    }

    /// Starts the server of an order on several threads.
    pub fn threaded(sockets: SocketsOrder, order: ServerOrder, threads: u8) -> Self {
        Self::run(move |flag, tell| {
            let threads = NonZeroU8::new(threads).unwrap();
            let partitioning = Partitioning::new(&order.role, threads, &order.seeds);
            let sockets = PartitionedSockets::open(sockets, &partitioning).unwrap();
            let servers = partitioning.servers(&order, sockets.listens()).unwrap();
            tell(sockets.listens());
            sockets.serve(servers, None, flag).unwrap()
        })
    }

    /// Starts the server that `make` makes for the listening addresses.
    pub fn with(
        sockets: SocketsOrder,
        make: impl FnOnce(&[(Transport, SocketAddr)]) -> Box<dyn Server> + Send + 'static,
    ) -> Self {
        Self::run(move |flag, tell| {
            let sockets = Sockets::open(sockets).unwrap();
            let mut server = make(sockets.listens());
            tell(sockets.listens());
            sockets.serve(server.as_mut(), None, flag).unwrap()
        })
    }

    fn run(
        serve: impl FnOnce(&AtomicBool, &dyn Fn(&[(Transport, SocketAddr)])) -> Tally + Send + 'static,
    ) -> Self {
        let cancel = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let flag = Arc::clone(&cancel);
        let tell = move |listens: &[(Transport, SocketAddr)]| tell.send(listens.to_vec()).unwrap();
        let thread = std::thread::spawn(move || serve(&flag, &tell));
        Self { listens: told.recv().unwrap(), cancel, thread: Some(thread) }
    }

    /// The listening address of a transport.
    pub fn address(&self, transport: Transport) -> SocketAddr {
        self.listens.iter().find(|(own, _)| *own == transport).unwrap().1
    }

    /// Ends the server and returns its counts.
    pub fn finish(mut self) -> Tally {
        self.cancel.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(joined.is_ok() || std::thread::panicking());
        }
    }
}

/// The order of sockets at these listening points.
pub fn sockets(points: &[&str]) -> SocketsOrder {
    SocketsOrder {
        listen: points.iter().map(|point| point.parse().unwrap()).collect(),
        identity: Some(Identity::self_signed(vec!["127.0.0.1".into()]).unwrap()),
        clients: None,
        trust: None,
        names: Names::default(),
        delay: None,
        limits: Limits::default(),
        seeds: Seeds::new(1),
    }
}

/// The order of a server without users.
pub fn server(role: Role) -> ServerOrder {
    ServerOrder {
        role,
        domains: Vec::new(),
        users: None,
        contact: None,
        digest: None,
        realm: None,
        most_transactions: 1000,
        most_users: 1000,
        timing: Timing::default(),
        seeds: Seeds::new(1),
    }
}

/// A DNS server with this zone over UDP.
pub fn name_server(zone: &str) -> NameServerOrder {
    NameServerOrder {
        listen: vec!["udp:127.0.0.1:0".parse().unwrap()],
        zone: Arc::new(Zone::parse(zone).unwrap().into()),
        proven: Vec::new(),
        delay: None,
        loss: 0.0,
        slots: NameServerOrder::SLOTS,
        seeds: Seeds::new(1),
    }
}
