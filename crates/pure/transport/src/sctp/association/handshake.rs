//! Setup of an association (RFC 9260 section 5), including collisions and restarts.

use std::net::IpAddr;

use netrig_core::{CloseReason, ConnectionEvent, Duration, Instant, Stream};

use super::{
    Association, AssociationPath, AssociationState, CookieError, CookieKey, Endpoints, PendingControl, Retry,
    StateCookie,
};
use super::{MOST_PATHS, PathAddresses, nonzero_tag};
use crate::sctp::config::Config;
use crate::sctp::packet::chunk::{Abort, CHUNK_HEADER, Init};
use crate::sctp::packet::tlv::padded;
use crate::sctp::packet::{COMMON_HEADER, Cause, Chunk, Parameter};
use crate::sctp::rx::{Acknowledger, MessageInbox, TsnArrivals};
use crate::sctp::tx::Outstanding;
use crate::{Incident, PathState, Serial};

/// This end's INIT, or its INIT ACK without the cookie, with these addresses.
pub(in crate::sctp) fn own_init(
    config: &Config,
    initiate_tag: u32,
    initial_tsn: Serial,
    addresses: impl Iterator<Item = IpAddr>,
) -> Init {
    Init {
        initiate_tag,
        // RFC 9260 section 3.3.2: a_rwnd must be at least 1500.
        a_rwnd: u32::try_from(config.receive_buffer.bytes()).unwrap_or(u32::MAX).max(1500),
        outbound_streams: config.streams.max(1),
        inbound_streams: u16::MAX,
        initial_tsn,
        parameters: address_parameters(addresses),
    }
}

/// The distinct addresses of a host as parameters. There are none if the host has a single address, because the IP
/// header contains it (RFC 9260 section 5.1.2 A).
fn address_parameters(addresses: impl Iterator<Item = IpAddr>) -> Vec<Parameter> {
    let mut distinct: Vec<IpAddr> = Vec::new();
    for address in addresses {
        if !distinct.contains(&address) {
            distinct.push(address);
        }
    }
    if distinct.len() < 2 {
        return Vec::new();
    }
    distinct.into_iter().map(Parameter::Address).collect()
}

/// Causes for the ABORT in reply to an invalid INIT or INIT ACK. `None` if the chunk is valid. Empty if the chunk must
/// be ignored without a reply.
pub(in crate::sctp) fn objection(init: &Init) -> Option<Vec<Cause>> {
    if init.initiate_tag == 0 {
        // RFC 9260 section 3.3.2: such a chunk is silently discarded.
        return Some(Vec::new());
    }
    // RFC 9260 section 3.3.2: an ABORT answers a chunk without streams or with a window below 1500 bytes.
    if init.outbound_streams == 0 || init.inbound_streams == 0 || init.a_rwnd < 1500 {
        return Some(vec![Cause::InvalidParameter]);
    }
    // RFC 9260 section 5.1.2: an ABORT answers a chunk with a host name.
    init.parameters.iter().find_map(|parameter| match parameter {
        Parameter::HostName(_) => {
            let bytes = parameter.to_bytes();
            let returned = if bytes.len() <= Cause::MOST_RETURNED { bytes } else { Vec::new() };
            Some(vec![Cause::UnresolvableAddress(returned)])
        }
        _ => None,
    })
}

/// The data from which an INIT ACK is built.
pub(in crate::sctp) struct InitAckBuilder<'a> {
    pub(in crate::sctp) config: &'a Config,
    pub(in crate::sctp) key: &'a CookieKey,
    /// The INIT ACK without its cookie: this end's tag, TSN, streams and addresses.
    pub(in crate::sctp) own: Init,
    pub(in crate::sctp) ports: (u16, u16),
    /// Source and destination address of the INIT.
    pub(in crate::sctp) source: (IpAddr, IpAddr),
    pub(in crate::sctp) tie_tags: (u32, u32),
}

impl InitAckBuilder<'_> {
    /// The INIT ACK in reply to `init`. Its cookie contains all state that is needed to create the association.
    pub(in crate::sctp) fn init_ack(self, now: Instant, init: &Init) -> Init {
        let room = self.room();
        let mut own = self.own;
        let preserved = init.parameters.iter().find_map(|parameter| match parameter {
            Parameter::CookiePreservative(millis) => Some(Duration::from_millis((*millis).into())),
            _ => None,
        });
        let cookie = StateCookie {
            created: now,
            // RFC 9260 section 5.2.6: the responder decides about the requested extension. The life is at most doubled.
            life: self.config.cookie_life + preserved.unwrap_or_default().min(self.config.cookie_life),
            local_port: self.ports.0,
            peer_port: self.ports.1,
            local_tag: own.initiate_tag,
            peer_tag: init.initiate_tag,
            local_tsn: own.initial_tsn,
            peer_tsn: init.initial_tsn,
            peer_rwnd: init.a_rwnd,
            outbound_streams: own.outbound_streams.min(init.inbound_streams),
            inbound_streams: own.inbound_streams.min(init.outbound_streams),
            tie_tags: self.tie_tags,
            source: self.source,
            peer_addresses: init.addresses().take(MOST_PATHS).collect(),
        };
        own.parameters.push(Parameter::Cookie(cookie.sign(self.key)));
        // RFC 9260 section 12.4: reports of unknown parameters that do not fit the MTU are omitted. Each report has its
        // own header of four bytes.
        let room = room.saturating_sub(u64::from(padded(own.value_len())));
        own.parameters.extend(init.unrecognized(room as usize, 4).map(Parameter::Unrecognized));
        own
    }

    /// Number of bytes for the value of a chunk that is alone in a packet of the MTU.
    fn room(&self) -> u64 {
        let ip = if self.source.0.is_ipv4() { 20 } else { 40 };
        let headers = ip + self.config.encapsulation.header_len() + COMMON_HEADER + CHUNK_HEADER;
        self.config.mtu.bytes().min(65_535).saturating_sub(headers.into())
    }
}

impl Association {
    /// Creates an established association from a valid cookie (RFC 9260 section 5.1.5).
    pub(in crate::sctp) fn accept(
        config: std::sync::Arc<Config>,
        endpoints: &Endpoints,
        random: Stream,
        key: CookieKey,
        cookie: &StateCookie,
        now: Instant,
    ) -> Self {
        let mut made = Self::with_key(config, endpoints, random, key, (cookie.local_tag, cookie.local_tsn));
        made.adopt(&cookie.peer_init(), cookie.peer_addresses.iter().copied(), cookie.source);
        let path = made.path_of_cookie(cookie);
        (made.primary, made.data_path) = (path, path);
        made.counters.packets_received = 1;
        made.establish(now, path);
        made.send_chunk(path, Chunk::CookieAck);
        made
    }

    pub(super) fn start_handshake(&mut self, now: Instant) {
        if self.state != AssociationState::New {
            return;
        }
        self.state = AssociationState::CookieWait;
        self.retry = Retry { path: self.primary, ..Retry::OFF };
        self.send_init(now);
    }

    fn send_init(&mut self, now: Instant) {
        let init = Chunk::Init(Box::new(self.own_init(self.local_tag, self.local_tsn)));
        // RFC 9260 section 8.5.1 A: an INIT is alone in its packet, which has the verification tag 0.
        let packet = self.make_packet(self.retry.path, 0, [init]);
        self.outgoing.push_back(PendingControl::Packet(packet));
        self.start_retry(now);
    }

    fn send_cookie(&mut self, now: Instant) {
        self.send_chunk(self.retry.path, Chunk::CookieEcho(self.cookie.clone()));
        self.start_retry(now);
    }

    /// Sets T1 or T2 to RTO.Initial, doubled with each retry (RFC 9260 sections 5.1 and 6.3.3).
    fn start_retry(&mut self, now: Instant) {
        let span = self.config.rto_initial.saturating_mul(1 << self.retry.count.min(30));
        self.set_retry(now, span.min(self.config.rto_max));
    }

    /// Sets T1 or T2 to `span`.
    pub(super) fn set_retry(&mut self, now: Instant, span: Duration) {
        self.retry.at = self.config.timer_wheel.fires(now, span);
        self.retry.span = span;
    }

    /// T1-init, T1-cookie or T2-shutdown expired.
    pub(super) fn retry_expired(&mut self, now: Instant) {
        self.counters.timeouts += 1;
        self.retry.at = Instant::NEVER;
        match self.state {
            AssociationState::CookieWait | AssociationState::CookieEchoed => {
                // RFC 9260 section 5.1.6, and Max.Init.Retransmits of section 16.
                if self.retry.count >= self.config.init_max_retrans {
                    self.finish(CloseReason::TimedOut);
                    return;
                }
                self.retry.count += 1;
                let timer =
                    if self.state == AssociationState::CookieEchoed { "T1-cookie" } else { "T1-init" };
                self.report_control_timeout(timer, self.retry.count, self.config.init_max_retrans);
                self.retry.path = self.alternate_of(self.retry.path);
                if self.state == AssociationState::CookieEchoed {
                    self.send_cookie(now);
                } else {
                    self.send_init(now);
                }
            }
            AssociationState::ShutdownSent | AssociationState::ShutdownAckSent => self.shutdown_expired(now),
            _ => {}
        }
    }

    pub(super) fn report_control_timeout(&mut self, timer: &'static str, errors: u32, limit: u32) {
        let rto = self.retry.span;
        self.incidents.push_back(Incident::ControlTimeout { timer, rto, errors, limit });
    }

    /// Handles an INIT for an existing association: both ends opened at the same time, or the peer restarted (RFC 9260
    /// sections 5.2.1 and 5.2.2).
    pub(super) fn handle_init(&mut self, now: Instant, source: (IpAddr, IpAddr), init: &Init) {
        let path = self.path_of(source.0, source.1).unwrap_or(self.primary);
        if let Some(causes) = objection(init) {
            if !causes.is_empty() {
                self.answer(path, init.initiate_tag, Chunk::Abort(Abort { reflected: false, causes }));
            }
            return;
        }
        let own = match self.state {
            AssociationState::New | AssociationState::Closed => return,
            // RFC 9260 section 9.2: "it SHOULD discard the INIT chunk and retransmit the SHUTDOWN ACK chunk".
            AssociationState::ShutdownAckSent => return self.send_chunk(path, Chunk::ShutdownAck),
            // RFC 9260 section 5.2.1: the reply has the same tag and TSN as this end's own INIT.
            AssociationState::CookieWait | AssociationState::CookieEchoed => {
                self.own_init(self.local_tag, self.local_tsn)
            }
            // RFC 9260 section 5.2.2: the reply has a new tag and TSN, so that a forged INIT has no effect.
            _ => {
                let tag = nonzero_tag(&mut self.random);
                let tsn = Serial(self.random.label() as u32);
                self.own_init(tag, tsn)
            }
        };
        let new_addresses: Vec<_> = init
            .addresses()
            .filter(|address| self.paths.iter().all(|path| path.flow.dst != *address))
            .take(MOST_PATHS)
            .map(|address| Parameter::Address(address).to_bytes())
            .collect();
        if !new_addresses.is_empty() && self.state != AssociationState::CookieWait {
            // RFC 9260 section 5.2.2: a restart must not add addresses.
            let causes = vec![Cause::RestartWithNewAddresses(new_addresses.concat())];
            self.answer(path, init.initiate_tag, Chunk::Abort(Abort { reflected: false, causes }));
            return;
        }
        let builder = InitAckBuilder {
            config: &self.config,
            key: &self.cookie_key,
            own,
            ports: (self.local_port, self.remote_port),
            source,
            tie_tags: (self.local_tag, self.peer_tag),
        };
        let chunk = Chunk::InitAck(Box::new(builder.init_ack(now, init)));
        self.answer(path, init.initiate_tag, chunk);
    }

    /// Sends a chunk in its own packet, with a verification tag that may differ from the association's.
    pub(super) fn answer(&mut self, path: usize, tag: u32, chunk: Chunk) {
        let packet = self.make_packet(path, tag, [chunk]);
        self.outgoing.push_back(PendingControl::Packet(packet));
    }

    /// Handles an INIT ACK (RFC 9260 section 5.1 C). In any other state than COOKIE-WAIT it is discarded (section
    /// 5.2.3).
    pub(super) fn handle_init_ack(&mut self, now: Instant, source: (IpAddr, IpAddr), init: Init) {
        if self.state != AssociationState::CookieWait {
            return;
        }
        let path = self.path_of(source.0, source.1).unwrap_or(self.primary);
        let mut causes = objection(&init);
        if causes.is_none() && init.cookie().is_none() {
            // Parameter type 7 is the state cookie.
            causes = Some(vec![Cause::MissingParameters(vec![7])]);
        }
        if let Some(causes) = causes {
            // RFC 9260 section 3.3.3: if the INIT ACK has no valid tag of the peer, the ABORT has the tag of the
            // received packet, which is this end's tag.
            let reflected = init.initiate_tag == 0;
            let tag = if reflected { self.local_tag } else { init.initiate_tag };
            self.answer(path, tag, Chunk::Abort(Abort { reflected, causes }));
            // If the only error is a window that is too small, the state does not change. Any other error ends the
            // attempt.
            if reflected || init.outbound_streams == 0 || init.inbound_streams == 0 || init.a_rwnd >= 1500 {
                self.finish(CloseReason::Refused);
            }
            return;
        }
        self.cookie = init.cookie().unwrap_or_default().to_vec();
        self.adopt(&init, init.addresses(), source);
        self.state = AssociationState::CookieEchoed;
        // RFC 9260 section 6.4: COOKIE ECHO is sent to the source of the INIT ACK. Section 5.4: but not to an address
        // that only the peer has listed.
        let path = if self.paths[path].by_user { path } else { self.retry.path };
        self.retry = Retry { path, ..Retry::OFF };
        self.send_cookie(now);
        let unknown: Vec<u8> = init.unrecognized(usize::MAX, 0).collect::<Vec<_>>().concat();
        if !unknown.is_empty() {
            self.send_chunk(path, Chunk::Error(vec![Cause::UnrecognizedParameters(unknown)]));
        }
    }

    /// Takes over the values in the peer's INIT or INIT ACK.
    fn adopt(&mut self, init: &Init, listed: impl Iterator<Item = IpAddr>, source: (IpAddr, IpAddr)) {
        self.peer_tag = init.initiate_tag;
        self.peer_rwnd = u64::from(init.a_rwnd);
        self.arrivals = TsnArrivals::new(init.initial_tsn);
        self.inbox = MessageInbox::new(&self.config);
        self.acknowledger = Acknowledger::new();
        self.outbound_streams = self.config.streams.max(1).min(init.inbound_streams);
        self.inbound_streams = init.outbound_streams;
        self.queue.limit_streams(self.outbound_streams);
        let mut peers: Vec<IpAddr> = listed.take(MOST_PATHS).collect();
        peers.push(source.0);
        for path in &mut self.paths {
            path.foreign = !peers.contains(&path.flow.dst);
        }
        for remote in peers {
            if self.path_of(remote, source.1).is_none() && self.paths.len() < MOST_PATHS {
                let addresses = PathAddresses { local: source.1, remote };
                self.paths.push(AssociationPath::new(
                    addresses,
                    (self.local_port, self.remote_port),
                    &self.config,
                ));
            }
        }
        for path in &mut self.paths {
            path.peer_window(init.a_rwnd, &self.config);
        }
    }

    /// The handshake was completed over `path`.
    fn establish(&mut self, now: Instant, path: usize) {
        self.retry = Retry::OFF;
        self.errors = 0;
        self.state = AssociationState::Established;
        for i in 0..self.paths.len() {
            // RFC 9260 section 5.4 rules 1 and 2: "Any addresses passed to the sender of the INIT chunk by its upper
            // layer in the request to initialize an association are automatically considered to be CONFIRMED". Of the
            // other paths, only the path of the handshake is confirmed.
            if i == path || self.paths[i].by_user || !self.config.path_verification {
                self.paths[i].state = PathState::Active;
            }
            self.paths[i].begin_idleness(now);
            self.schedule_first_heartbeat(now, i);
        }
        self.reselect_data_path();
        self.events.push_back(ConnectionEvent::Connected { peer: self.peer() });
        self.incidents.push_back(Incident::Established);
        self.continue_shutdown(now);
    }

    /// Handles a COOKIE ACK (RFC 9260 section 5.1 E).
    pub(super) fn handle_cookie_ack(&mut self, now: Instant) {
        if self.state == AssociationState::CookieEchoed {
            self.cookie = Vec::new();
            self.establish(now, self.retry.path);
        }
    }

    /// Handles a COOKIE ECHO for an existing association by the table of RFC 9260 section 5.2.4.
    pub(super) fn handle_cookie_echo(&mut self, now: Instant, path: usize, tag: u32, bytes: &[u8]) {
        if matches!(self.state, AssociationState::New | AssociationState::Closed) {
            return;
        }
        let (cookie, stale) = match StateCookie::verify(bytes, &self.cookie_key, now) {
            Ok(cookie) => (cookie, None),
            Err(CookieError::Forged) => return,
            Err(CookieError::Stale { by, cookie }) => (*cookie, Some(by)),
        };
        // RFC 9260 section 5.1.5 (3) and section 8.5.1 D.
        if cookie.local_tag != tag
            || cookie.peer_port != self.remote_port
            || cookie.local_port != self.local_port
        {
            return;
        }
        let local = cookie.local_tag == self.local_tag;
        let peer = cookie.peer_tag == self.peer_tag;
        if let Some(by) = stale.filter(|_| !(local && peer)) {
            let micros = u32::try_from(by.as_nanos() / 1000).unwrap_or(u32::MAX);
            return self.answer(path, cookie.peer_tag, Chunk::Error(vec![Cause::StaleCookie(micros)]));
        }
        match (local, peer) {
            // D: a duplicate, or the expected reply to this end's INIT ACK.
            (true, true) => {
                if matches!(self.state, AssociationState::CookieWait | AssociationState::CookieEchoed) {
                    self.establish(now, self.path_of_cookie(&cookie));
                }
                self.send_chunk(path, Chunk::CookieAck);
            }
            // B: both ends opened at the same time.
            (true, false) => {
                self.adopt(&cookie.peer_init(), cookie.peer_addresses.iter().copied(), cookie.source);
                if matches!(self.state, AssociationState::CookieWait | AssociationState::CookieEchoed) {
                    self.establish(now, self.path_of_cookie(&cookie));
                }
                self.send_chunk(path, Chunk::CookieAck);
            }
            // A: the peer restarted.
            (false, false) if cookie.tie_tags == (self.local_tag, self.peer_tag) => {
                if self.state == AssociationState::ShutdownAckSent {
                    self.send_chunk(path, Chunk::ShutdownAck);
                    self.send_chunk(path, Chunk::Error(vec![Cause::CookieWhileShuttingDown]));
                } else {
                    self.restart(now, &cookie);
                }
            }
            // Action C, and cases that are not in the table: silently discarded.
            _ => {}
        }
    }

    /// RFC 9260 section 5.2.4, action A: restarts the association. Unacknowledged data is lost.
    fn restart(&mut self, now: Instant, cookie: &StateCookie) {
        self.local_tag = cookie.local_tag;
        self.local_tsn = cookie.local_tsn;
        self.outstanding = Outstanding::new(cookie.local_tsn, self.config.chunk_charge);
        self.queue.clear();
        self.fast_recovery = None;
        self.retransmission_due = None;
        self.retransmissions_held = false;
        self.window_closed = false;
        for path in &mut self.paths {
            let addresses = PathAddresses { local: path.flow.src, remote: path.flow.dst };
            *path = AssociationPath::new(addresses, (self.local_port, self.remote_port), &self.config);
        }
        self.adopt(&cookie.peer_init(), cookie.peer_addresses.iter().copied(), cookie.source);
        let path = self.path_of_cookie(cookie);
        self.establish(now, path);
        self.send_chunk(path, Chunk::CookieAck);
    }

    /// The path over which the INIT ACK with this cookie was sent. It is the only path that the cookie confirms (RFC
    /// 9260 section 5.4 rule 2).
    fn path_of_cookie(&self, cookie: &StateCookie) -> usize {
        self.path_of(cookie.source.0, cookie.source.1).unwrap_or(self.primary)
    }

    /// Handles an ERROR with "Stale Cookie" (RFC 9260 section 5.2.6): repeats the attempt from the start if
    /// retransmissions are left. It does not request a longer cookie life.
    pub(super) fn handle_stale_cookie(&mut self, now: Instant) {
        if self.state != AssociationState::CookieEchoed {
            return;
        }
        if self.retry.count >= self.config.init_max_retrans {
            self.finish(CloseReason::TimedOut);
            return;
        }
        self.retry.count += 1;
        self.state = AssociationState::CookieWait;
        self.send_init(now);
    }
}
