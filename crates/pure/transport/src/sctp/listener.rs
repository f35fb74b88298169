//! The passive end before an association exists (RFC 9260 sections 5.1 and 8.4).

use std::sync::Arc;

use netrig_core::{Dscp, Header, Instant, Stream, protocol};

use super::association::{
    Association, CookieError, CookieKey, Endpoints, InitAckBuilder, MOST_PATHS, PathAddresses, StateCookie,
    nonzero_tag, objection, own_init,
};
use super::config::{Config, Encapsulation};
use super::packet::chunk::{Abort, Init};
use super::packet::{Cause, Chunk, Chunks, Packet};
use crate::{Payload, Serial};

/// Result of a packet that a listener handles.
#[derive(Debug)]
pub enum ListenerResponse {
    /// A packet to send.
    Reply(crate::Packet),
    /// A new association. The caller must poll its packets and events.
    Accepted(Box<Association>),
}

/// Answers an INIT with an INIT ACK, and creates an association from a valid COOKIE ECHO. It keeps no state between the
/// two: the state cookie contains all of it.
///
/// The host passes the listener each packet to its port that belongs to no association.
#[derive(Debug)]
pub struct Listener {
    config: Arc<Config>,
    port: u16,
    /// This host's address for each peer address, as in a routing table.
    routes: Vec<PathAddresses>,
    dscp: Dscp,
    key: CookieKey,
    random: Stream,
}

impl Listener {
    /// A listener on `port`. `routes` has this host's address for each peer address. For a peer address that is not in
    /// `routes`, the destination address of the INIT is used. An INIT ACK lists the local addresses in `routes`.
    pub fn new(
        config: impl Into<Arc<Config>>,
        port: u16,
        routes: impl Into<Vec<PathAddresses>>,
        dscp: Dscp,
        mut random: Stream,
    ) -> Self {
        let key = CookieKey::random(&mut random);
        Self { config: config.into(), port, routes: routes.into(), dscp, key, random }
    }

    /// The listening port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Handles a packet that belongs to no association.
    pub fn handle_packet(&mut self, now: Instant, packet: crate::Packet) -> Option<ListenerResponse> {
        let crate::Packet { header, payload: Payload::Sctp(sctp) } = packet else { return None };
        // RFC 9260 section 3.1: a port must not be 0.
        if sctp.src_port == 0 {
            return None;
        }
        // Routers may have changed the DiffServ code point. Replies have the code point of this end.
        let header = Header { dscp: self.dscp, ..header };
        match sctp.chunks.first() {
            Some(Chunk::Init(init)) => {
                // RFC 9260 section 8.5.1 A.
                let lawful = sctp.chunks.len() == 1 && sctp.verification_tag == 0;
                lawful
                    .then(|| self.answer_init(now, &header, &sctp, init))
                    .flatten()
                    .map(ListenerResponse::Reply)
            }
            Some(Chunk::CookieEcho(cookie)) => {
                match StateCookie::verify(cookie, &self.key, now) {
                    Ok(cookie) if self.fits(&cookie, &sctp) => {
                        Some(ListenerResponse::Accepted(self.accept(now, &cookie, header, *sctp)))
                    }
                    Err(CookieError::Stale { by, cookie }) if self.fits(&cookie, &sctp) => {
                        // RFC 9260 section 5.1.5 (5).
                        let micros = u32::try_from(by.as_nanos() / 1000).unwrap_or(u32::MAX);
                        let error = Chunk::Error(vec![Cause::StaleCookie(micros)]);
                        Some(ListenerResponse::Reply(reply(&header, &sctp, cookie.peer_tag, error)))
                    }
                    _ => None,
                }
            }
            _ => out_of_the_blue(&header, &sctp).map(ListenerResponse::Reply),
        }
    }

    fn answer_init(
        &mut self,
        now: Instant,
        header: &Header,
        packet: &Packet,
        init: &Init,
    ) -> Option<crate::Packet> {
        if let Some(causes) = objection(init) {
            let abort = Chunk::Abort(Abort { reflected: false, causes });
            return (init.initiate_tag != 0).then(|| reply(header, packet, init.initiate_tag, abort));
        }
        let flow = header.flow;
        let locals = std::iter::once(flow.dst).chain(self.routes.iter().map(|route| route.local));
        let tag = nonzero_tag(&mut self.random);
        let tsn = Serial(self.random.label() as u32);
        let own = own_init(&self.config, tag, tsn, locals);
        let builder = InitAckBuilder {
            config: &self.config,
            key: &self.key,
            own,
            ports: (self.port, packet.src_port),
            source: (flow.src, flow.dst),
            tie_tags: (0, 0),
        };
        let ack = Chunk::InitAck(Box::new(builder.init_ack(now, init)));
        Some(reply(header, packet, init.initiate_tag, ack))
    }

    /// RFC 9260 section 5.1.5 (3): ports and tag must equal those of the cookie.
    fn fits(&self, cookie: &StateCookie, packet: &Packet) -> bool {
        cookie.local_tag == packet.verification_tag
            && cookie.local_port == self.port
            && cookie.peer_port == packet.src_port
    }

    fn accept(
        &mut self,
        now: Instant,
        cookie: &StateCookie,
        header: Header,
        packet: Packet,
    ) -> Box<Association> {
        let mut association = Box::new(Association::accept(
            Arc::clone(&self.config),
            &self.endpoints(cookie),
            // Each association has its own random stream, so that its random numbers do not depend on other
            // associations.
            self.random.branch("association"),
            self.key.clone(),
            cookie,
            now,
        ));
        // The chunks after the COOKIE ECHO.
        let Packet { src_port, dst_port, verification_tag, chunks } = packet;
        let chunks: Chunks = chunks.into_iter().skip(1).collect();
        if !chunks.is_empty() {
            let mut rest = Packet { src_port, dst_port, verification_tag, chunks };
            association.receive_rest(now, &header, &mut rest);
        }
        association
    }

    /// The paths to a peer: first those in `routes`, in order, then paths to the other addresses that the peer listed.
    fn endpoints(&self, cookie: &StateCookie) -> Endpoints {
        let (remote, local) = cookie.source;
        let listed = |address| address == remote || cookie.peer_addresses.contains(&address);
        let mut paths: Vec<PathAddresses> =
            self.routes.iter().filter(|route| listed(route.remote)).copied().collect();
        for remote in std::iter::once(remote).chain(cookie.peer_addresses.iter().copied()) {
            if paths.iter().all(|path| path.remote != remote) {
                paths.push(PathAddresses { local, remote });
            }
        }
        paths.truncate(MOST_PATHS);
        let alternates = paths.split_off(1);
        Endpoints {
            local_port: self.port,
            remote_port: cookie.peer_port,
            primary: paths[0],
            alternates,
            dscp: self.dscp,
        }
    }
}

/// A packet with one chunk in reply to `answered`. It has the code point of `to`, and the same encapsulation (RFC 6951
/// section 5.4).
fn reply(to: &Header, answered: &Packet, verification_tag: u32, chunk: Chunk) -> crate::Packet {
    let flow = to.flow.reversed();
    let packet = Packet {
        src_port: answered.dst_port,
        dst_port: answered.src_port,
        verification_tag,
        chunks: Chunks::from_iter([chunk]),
    };
    let encapsulation = if flow.protocol == protocol::UDP { Encapsulation::Udp } else { Encapsulation::Ip };
    let ip_len = flow.ip_header_len() + encapsulation.header_len() + packet.wire_len();
    let header = Header { flow, ip_len, dscp: to.dscp, ecn: netrig_core::Ecn::NotEct };
    crate::Packet { header, payload: Payload::Sctp(Box::new(packet)) }
}

/// A host's reply to a packet that belongs to no association and to no listener (RFC 9260 section 8.4).
pub fn out_of_the_blue(header: &Header, packet: &Packet) -> Option<crate::Packet> {
    let tag = packet.verification_tag;
    let has = |kind: fn(&Chunk) -> bool| packet.chunks.iter().any(kind);
    // Rules 2 and 6: ABORT and SHUTDOWN COMPLETE are never answered. Rule 7: COOKIE ACK and an ERROR with a stale
    // cookie are not answered either.
    if has(|chunk| matches!(chunk, Chunk::Abort(_) | Chunk::ShutdownComplete { .. } | Chunk::CookieAck)) {
        return None;
    }
    if has(
        |chunk| matches!(chunk, Chunk::Error(causes) if causes.iter().any(|c| matches!(c, Cause::StaleCookie(_)))),
    ) {
        return None;
    }
    // Rule 5: the peer waits for the end of an association that this host has removed.
    if has(|chunk| matches!(chunk, Chunk::ShutdownAck)) {
        return Some(reply(header, packet, tag, Chunk::ShutdownComplete { reflected: true }));
    }
    match packet.chunks.first()? {
        // Rule 3: an INIT to a port without a listener.
        Chunk::Init(init) if init.initiate_tag != 0 => Some(reply(
            header,
            packet,
            init.initiate_tag,
            Chunk::Abort(Abort { reflected: false, causes: Vec::new() }),
        )),
        Chunk::Init(_) => None,
        // Rule 8: all other packets.
        _ => Some(reply(header, packet, tag, Chunk::Abort(Abort { reflected: true, causes: Vec::new() }))),
    }
}
