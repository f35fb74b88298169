//! Two network namespaces and the paths between them.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::Command;
use std::thread;

use netrig_transport::sctp::PathAddresses;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::journal::Journal;

/// An end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// netrig's end.
    Netrig,
    /// The peer's end.
    Peer,
}

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    fn make(name: String) -> Self {
        ip(&["netns", "add", &name]);
        let this = Self { name };
        // With reverse-path filtering, the kernel would drop packets that arrive over another interface than that of
        // the route back.
        this.within(|| {
            for which in ["all", "default"] {
                fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0")
                    .expect("a namespace of our own can be set up");
            }
        });
        this
    }

    /// Runs `work` in a thread inside the namespace. The sockets that it opens and the processes that it starts are in
    /// the namespace.
    ///
    /// # Panics
    /// If the namespace cannot be entered, or `work` panics.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let enter = || {
            let place = File::open(Path::new("/run/netns").join(&self.name)).expect("the namespace is there");
            move_into_link_name_space(place.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter a namespace");
            work()
        };
        let done = thread::scope(|scope| scope.spawn(enter).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Two namespaces joined by veth pairs, with one pair and one subnet per path. When this value is dropped, both
/// namespaces and the processes in them are removed.
#[derive(Debug)]
pub struct Network {
    netrig: Namespace,
    peer: Namespace,
    paths: u8,
    journal: Journal,
}

impl Network {
    /// A network with this number of paths.
    ///
    /// # Panics
    /// If the network cannot be made.
    pub fn new(paths: u8) -> Self {
        let journal = Journal::open();
        let [netrig, peer] = ['a', 'b'].map(|side| Namespace::make(journal.name(side)));
        let this = Self { netrig, peer, paths, journal };
        for path in 0..paths {
            let name = interface(path);
            let ends = (&this.netrig.name, &this.peer.name);
            ip(&[
                "link", "add", &name, "netns", ends.0, "type", "veth", "peer", "name", &name, "netns", ends.1,
            ]);
            for side in [Side::Netrig, Side::Peer] {
                let address = format!("{}/24", address(path, side));
                // `ip -n` is not used, because it remounts the root, which fails if the root is not a mount point, as
                // in a container.
                this.namespace(side).within(|| {
                    ip(&["address", "add", &address, "dev", &name]);
                    ip(&["link", "set", &name, "up"]);
                });
            }
        }
        this
    }

    /// The namespace of a side.
    pub fn namespace(&self, side: Side) -> &Namespace {
        match side {
            Side::Netrig => &self.netrig,
            Side::Peer => &self.peer,
        }
    }

    /// The addresses of a side, one per path.
    pub fn addresses(&self, side: Side) -> impl Iterator<Item = Ipv4Addr> {
        (0..self.paths).map(move |path| address(path, side))
    }

    /// The names of the interfaces, one per path. They are the same on both sides.
    pub fn interfaces(&self) -> impl Iterator<Item = String> {
        (0..self.paths).map(interface)
    }

    /// The addresses of the paths, seen from netrig's end.
    pub fn routes(&self) -> Vec<PathAddresses> {
        let ends = self.addresses(Side::Netrig).zip(self.addresses(Side::Peer));
        ends.map(|(local, remote)| PathAddresses { local: local.into(), remote: remote.into() }).collect()
    }

    /// Sets the interface of a side on a path down. The other side only stops receiving packets.
    ///
    /// # Panics
    /// If there is no such path.
    pub fn set_down(&self, side: Side, path: u8) {
        self.namespace(side).within(|| ip(&["link", "set", &interface(path), "down"]));
    }

    /// The folder of the test's files.
    pub fn folder(&self) -> &Path {
        self.journal.folder()
    }
}

fn interface(path: u8) -> String {
    format!("path{path}")
}

/// A private address (RFC 1918), which exists in these namespaces only. SCTP stacks refuse the test addresses of RFC
/// 2544 and RFC 5737.
fn address(path: u8, side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 132, path, if side == Side::Netrig { 1 } else { 2 })
}

fn ip(words: &[&str]) {
    let out = Command::new("ip").args(words).output().expect("iproute2 is there");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "ip {}: {told}", words.join(" "));
}
