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

/// Which end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where netrig is.
    Netrig,
    /// Where the peer is.
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
        // Without this a packet that comes over another interface than the answer would take is dropped.
        this.within(|| {
            for which in ["all", "default"] {
                fs::write(format!("/proc/sys/net/ipv4/conf/{which}/rp_filter"), "0")
                    .expect("a namespace of our own can be set up");
            }
        });
        this
    }

    /// Does `work` in a thread within the namespace: sockets that it opens, and processes that it starts,
    /// belong there.
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

/// Two namespaces joined by veth pairs, one pair and one subnet a path. Both namespaces, with all that is in
/// them, go when this is dropped.
#[derive(Debug)]
pub struct Network {
    netrig: Namespace,
    peer: Namespace,
    paths: u8,
    journal: Journal,
}

impl Network {
    /// A network of so many paths.
    ///
    /// # Panics
    /// If it cannot be made.
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
                // Not `ip -n`, which remounts the root: where that is no mount, as in a container, it cannot.
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

    /// A side's addresses, path by path.
    pub fn addresses(&self, side: Side) -> impl Iterator<Item = Ipv4Addr> {
        (0..self.paths).map(move |path| address(path, side))
    }

    /// A side's interfaces, path by path.
    pub fn interfaces(&self) -> impl Iterator<Item = String> {
        (0..self.paths).map(interface)
    }

    /// The paths as netrig sees them.
    pub fn routes(&self) -> Vec<PathAddresses> {
        let ends = self.addresses(Side::Netrig).zip(self.addresses(Side::Peer));
        ends.map(|(local, remote)| PathAddresses { local: local.into(), remote: remote.into() }).collect()
    }

    /// Sets a side's interface on a path down: the other side sees nothing but silence.
    ///
    /// # Panics
    /// If there is no such path.
    pub fn set_down(&self, side: Side, path: u8) {
        self.namespace(side).within(|| ip(&["link", "set", &interface(path), "down"]));
    }

    /// Where the test's files are.
    pub fn folder(&self) -> &Path {
        self.journal.folder()
    }
}

fn interface(path: u8) -> String {
    format!("path{path}")
}

/// Private addresses (RFC 1918), which only these namespaces see. Those of RFC 2544 and RFC 5737 would be
/// prettier, but stacks refuse them.
fn address(path: u8, side: Side) -> Ipv4Addr {
    Ipv4Addr::new(10, 132, path, if side == Side::Netrig { 1 } else { 2 })
}

fn ip(words: &[&str]) {
    let out = Command::new("ip").args(words).output().expect("iproute2 is there");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "ip {}: {told}", words.join(" "));
}
