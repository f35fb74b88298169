//! The path MTU search (Datagram PLPMTUD, RFC 8899) as a state machine without a socket or a clock: it decides which
//! packet is sent next, and keeps the largest size that arrived and the smallest size that did not.
//!
//! All sizes are octets of whole IP packets. The names correspond to those of the RFC:
//!
//! | here | RFC 8899 section 5 |
//! |---|---|
//! | [`PathMtuPlan::least`], [`PathMtuPlan::base`], [`PathMtuPlan::most`] | MIN_PLPMTU, BASE_PLPMTU, MAX_PLPMTU |
//! | [`PathMtuPlan::probes`], [`PathMtuPlan::timer`] | MAX_PROBES, PROBE_TIMER |
//! | [`PathMtuPhase`] | the phases |
//! | [`PathMtuSearch::confirmed`] | PLPMTU |
//!
//! A search begins with the base size and then tries the largest size. If a router reports an MTU, that MTU is tried
//! next. Otherwise the common link MTUs are tried, the middle one of those that remain first. The search is complete
//! when the size one above the largest confirmed size has been tried and did not arrive. If no ICMP error gave the
//! reason, both sizes are tried again alternately, so that random losses do not determine the result.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::{Duration, Instant};
use serde::Serialize;

/// Common link MTUs: loopback, jumbo frames, FDDI, Ethernet, PPPoE, tunnels over IPv4, IPv6 and IPsec, Ethernet minus
/// the headers of several of these tunnels, and the minima of IPv6 and of old links.
const COMMON: [usize; 26] = [
    65_535, 9216, 9180, 9000, 8192, 4352, 2048, 2002, 1500, 1492, 1480, 1476, 1472, 1462, 1452, 1442, 1430,
    1420, 1412, 1400, 1380, 1358, 1320, 1280, 1006, 576,
];

/// Number of times that the confirmed and the refused size are tried again if no ICMP error gave the reason of the
/// loss.
const ROUNDS: u32 = 3;

/// Maximum number of packets of a search. It bounds a search on a path with heavy loss.
const MOST_PACKETS: usize = 2000;

/// Maximum number of times that a search starts, including restarts.
const MOST_BEGINNINGS: u32 = 3;

/// Once a round-trip time is known, the time-out of a packet is the longest round-trip time multiplied by this factor,
/// but at least [`LEAST_TIMER`].
const PATIENCE: u64 = 3;
const LEAST_TIMER: Duration = Duration::from_millis(200);

/// Parameters of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuPlan {
    /// Minimum MTU that every path must have.
    pub least: usize,
    /// The size that is probed first. Most paths carry it.
    pub base: usize,
    /// The largest size to try.
    pub most: usize,
    /// Number of lost packets of one size after which the size counts as too long.
    pub probes: u32,
    /// Time after which a packet counts as lost. It is shorter once round-trip times are known.
    pub timer: Duration,
}

impl PathMtuPlan {
    /// The parameters of a search between these sizes. `None` if the sizes are not in rising order or another value is
    /// 0.
    pub const fn new(least: usize, base: usize, most: usize, probes: u32, timer: Duration) -> Option<Self> {
        let sound = 0 < least && least <= base && base <= most && probes > 0 && !timer.is_zero();
        if sound { Some(Self { least, base, most, probes, timer }) } else { None }
    }
}

/// Phase of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathMtuPhase {
    /// The base size is probed.
    Base,
    /// Larger sizes are probed.
    Search,
    /// The path MTU is known.
    SearchComplete,
    /// The base size does not arrive.
    Error,
}

/// Why a size counts as too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TooLongReason {
    /// Larger sizes were not tried.
    Untried,
    /// The interface of this host has a smaller MTU.
    Here,
    /// A router reported that the packet is too long.
    Told {
        /// Address of the router.
        by: IpAddr,
        /// MTU of the router's next link as reported; 0 if not reported.
        mtu: u32,
    },
    /// Packets vanish without an ICMP error.
    Vanished,
}

/// Counts of the packets of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeCounts {
    /// Packets sent.
    pub sent: u32,
    /// Packets that were answered.
    pub answered: u32,
    /// Packets that a router reported as too long.
    pub told: u32,
}

/// The next action of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtuStep {
    /// A packet with this number and size is to be sent now.
    Send {
        /// Number of the packet.
        number: u32,
        /// Size of the packet.
        size: usize,
    },
    /// Do nothing before this time unless a response arrives.
    Wait(Instant),
    /// The search is complete.
    Over,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
struct SearchPacket {
    size: usize,
    sent: Instant,
    answered: bool,
}

/// The size that is being probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SizeProbing {
    size: usize,
    /// Number of lost packets of this size.
    lost: u32,
    /// Number of the packet in flight, and the time at which the packet counts as lost.
    open: Option<(u32, Instant)>,
}

/// A search in progress.
#[derive(Clone, Debug)]
pub struct PathMtuSearch {
    plan: PathMtuPlan,
    phase: PathMtuPhase,
    /// The largest size that arrived; 0 if none has arrived yet.
    confirmed: usize,
    /// The smallest size that counts as too long, and why. Initially, the size is one more than the largest size to
    /// try.
    refused: (usize, TooLongReason),
    /// The MTU that a router reported; `None` once it was tried.
    hint: Option<usize>,
    /// The last MTU that a router reported.
    hinted: usize,
    probing: Option<SizeProbing>,
    /// Remaining rounds in which the confirmed and the refused size are tried again.
    rounds: u32,
    beginnings: u32,
    packets: Vec<SearchPacket>,
    tried: BTreeMap<usize, SizeCounts>,
    longest: Duration,
    untrue: u32,
    unsteady: bool,
}

impl PathMtuSearch {
    /// A search that has not sent a packet.
    pub const fn new(plan: PathMtuPlan) -> Self {
        Self {
            plan,
            phase: PathMtuPhase::Base,
            confirmed: 0,
            refused: (plan.most + 1, TooLongReason::Untried),
            hint: None,
            hinted: 0,
            probing: None,
            rounds: ROUNDS,
            beginnings: 1,
            packets: Vec::new(),
            tried: BTreeMap::new(),
            longest: Duration::ZERO,
            untrue: 0,
            unsteady: false,
        }
    }

    /// Phase of the search.
    pub const fn phase(&self) -> PathMtuPhase {
        self.phase
    }

    /// The largest size that arrived; `None` if none did.
    pub fn confirmed(&self) -> Option<usize> {
        Some(self.confirmed).filter(|size| *size > 0)
    }

    /// The smallest size that counts as too long, and why.
    pub const fn refused(&self) -> (usize, TooLongReason) {
        self.refused
    }

    /// Counts of the packets of each size.
    pub const fn tried(&self) -> &BTreeMap<usize, SizeCounts> {
        &self.tried
    }

    /// Number of reports of too long packets that cannot be true: the reported MTU is not smaller than the packet, or
    /// it is smaller than the minimum of every path or than a size that arrived.
    pub const fn untrue(&self) -> u32 {
        self.untrue
    }

    /// Whether a size that had arrived was lost later, so that the search was restarted.
    pub const fn is_unsteady(&self) -> bool {
        self.unsteady
    }

    /// Returns the next action. A returned packet counts as sent at `now`.
    pub fn next(&mut self, now: Instant) -> PathMtuStep {
        let allowed = self.allowed();
        if let Some(probing) = &mut self.probing {
            match probing.open {
                Some((_, due)) if now < due => return PathMtuStep::Wait(due),
                Some(_) => {
                    probing.open = None;
                    probing.lost += 1;
                    if probing.lost >= allowed {
                        self.gave_up();
                    }
                }
                None => {}
            }
        }
        if self.probing.is_none() && self.packets.len() >= MOST_PACKETS {
            self.stop();
        }
        if self.probing.is_none() {
            match self.candidate() {
                Some(size) => self.probing = Some(SizeProbing { size, lost: 0, open: None }),
                None => return PathMtuStep::Over,
            }
        }
        let timer = self.timer();
        let number = self.packets.len() as u32;
        let Some(probing) = &mut self.probing else { return PathMtuStep::Over };
        let size = probing.size;
        probing.open = Some((number, now + timer));
        self.packets.push(SearchPacket { size, sent: now, answered: false });
        self.tried.entry(size).or_default().sent += 1;
        PathMtuStep::Send { number, size }
    }

    /// Number of lost packets after which the probed size counts as too long.
    fn allowed(&self) -> u32 {
        if self.is_verifying() { 1 } else { self.plan.probes }
    }

    /// Whether the search is complete and only verifies the confirmed and the refused size.
    fn is_verifying(&self) -> bool {
        self.phase == PathMtuPhase::SearchComplete
    }

    /// Time-out of a packet. RFC 8899 section 5.1.1 requires at least a second, for a transport that sends data
    /// meanwhile. It is shorter here because a user waits for the search.
    fn timer(&self) -> Duration {
        if self.longest.is_zero() {
            return self.plan.timer;
        }
        (self.longest * PATIENCE).max(LEAST_TIMER).min(self.plan.timer)
    }

    /// The next size to probe.
    fn candidate(&mut self) -> Option<usize> {
        match self.phase {
            PathMtuPhase::Base => Some(self.plan.base),
            PathMtuPhase::Error if self.confirmed == 0 && self.refused.0 <= self.plan.least => None,
            PathMtuPhase::Error if self.confirmed == 0 => Some(self.hint.take().unwrap_or(self.plan.least)),
            PathMtuPhase::Search | PathMtuPhase::Error => {
                let between = self.between();
                if between.is_none() {
                    self.phase = PathMtuPhase::SearchComplete;
                    return self.candidate();
                }
                between
            }
            PathMtuPhase::SearchComplete => self.once_more(),
        }
    }

    /// A size between the confirmed and the refused one, if there is one.
    fn between(&mut self) -> Option<usize> {
        let (low, high) = (self.confirmed, self.refused.0);
        let inside = |size: usize| low < size && size < high;
        if let Some(hint) = self.hint.take().filter(|hint| inside(*hint)) {
            return Some(hint);
        }
        if !inside(low + 1) {
            return None;
        }
        // The largest possible size is tried first: most paths carry the MTU of this host's interface, and a reported
        // MTU is usually correct.
        if matches!(self.refused.1, TooLongReason::Untried | TooLongReason::Here) {
            return Some(high - 1);
        }
        if low == self.hinted {
            return Some(low + 1);
        }
        let common: Vec<_> = COMMON.into_iter().filter(|size| inside(*size)).collect();
        if let Some(middle) = common.get(common.len() / 2) {
            return Some(*middle);
        }
        Some(if COMMON.contains(&low) { low + 1 } else { low + (high - low) / 2 })
    }

    /// Returns the confirmed and the refused size alternately, until enough rounds show that the loss depends on the
    /// length.
    fn once_more(&mut self) -> Option<usize> {
        let (refused, TooLongReason::Vanished) = self.refused else { return None };
        if self.rounds == 0 || self.confirmed == 0 {
            return None;
        }
        let of_confirmed = self.packets.last().is_some_and(|packet| packet.size == self.confirmed);
        if of_confirmed {
            self.rounds -= 1;
        }
        if of_confirmed && self.rounds == 0 {
            None
        } else {
            Some(if of_confirmed { refused } else { self.confirmed })
        }
    }

    /// Ends the probing of a size whose packets were all lost.
    fn gave_up(&mut self) {
        let Some(SizeProbing { size, .. }) = self.probing.take() else { return };
        if self.is_verifying() {
            return;
        }
        if size <= self.confirmed {
            // A size that had arrived is now lost.
            return self.begin_anew();
        }
        self.refuse(size, TooLongReason::Vanished);
    }

    /// Records a size as too long.
    fn refuse(&mut self, size: usize, why: TooLongReason) {
        if size < self.refused.0 || (size == self.refused.0 && self.refused.1 == TooLongReason::Vanished) {
            self.refused = (size, why);
        }
        if self.phase == PathMtuPhase::Base {
            self.phase = PathMtuPhase::Error;
        }
    }

    fn begin_anew(&mut self) {
        self.unsteady = true;
        self.probing = None;
        self.beginnings += 1;
        if self.beginnings > MOST_BEGINNINGS {
            self.rounds = 0;
            self.phase = PathMtuPhase::SearchComplete;
            return;
        }
        (self.phase, self.confirmed, self.hint) = (PathMtuPhase::Base, 0, None);
        self.refused = (self.plan.most + 1, TooLongReason::Untried);
    }

    /// Records the answer to a packet. Returns whether it is the first answer to a packet of this search.
    pub fn answered(&mut self, number: u32, now: Instant) -> bool {
        let Some(packet) = self.packets.get_mut(number as usize).filter(|packet| !packet.answered) else {
            return false;
        };
        packet.answered = true;
        let (size, sent) = (packet.size, packet.sent);
        self.longest = self.longest.max(now - sent);
        self.tried.entry(size).or_default().answered += 1;
        if self.probing.is_some_and(|probing| probing.size == size) {
            self.probing = None;
        }
        // The arrival of a packet overrides any report that its size is too long.
        if size >= self.refused.0 {
            self.refused = (self.plan.most + 1, TooLongReason::Untried);
            if self.is_verifying() {
                self.phase = PathMtuPhase::Search;
            }
        }
        if size > self.confirmed {
            self.confirmed = size;
        }
        match self.phase {
            PathMtuPhase::Base => self.phase = PathMtuPhase::Search,
            PathMtuPhase::Error if size >= self.plan.base => self.phase = PathMtuPhase::Search,
            _ => {}
        }
        true
    }

    /// Records the report of router `by` that packet `number` is too long for the router's next link. `mtu` is the
    /// reported MTU; 0 if the report has none. As RFC 8899 section 4.6.2 requires, the report only determines which
    /// size is tried next.
    pub fn too_long(&mut self, number: u32, mtu: u32, by: IpAddr) {
        let Some(SearchPacket { size, answered: false, .. }) = self.packets.get(number as usize).copied()
        else {
            return;
        };
        self.tried.entry(size).or_default().told += 1;
        let mtu_size = mtu as usize;
        if mtu != 0 && (mtu_size >= size || mtu_size < self.plan.least) {
            self.untrue += 1;
            return;
        }
        if size <= self.confirmed {
            // The size has arrived before, so the MTU has changed. The search starts again.
            return self.begin_anew();
        }
        self.refuse(size, TooLongReason::Told { by, mtu });
        if mtu != 0 && mtu_size < self.confirmed {
            self.untrue += 1;
            // A larger size arrived before. It is tried again.
            self.probing = Some(SizeProbing { size: self.confirmed, lost: 0, open: None });
            return;
        }
        if self.probing.is_some_and(|probing| probing.size == size) {
            self.probing = None;
        }
        if mtu != 0 {
            (self.hint, self.hinted) = (Some(mtu_size), mtu_size);
        }
    }

    /// Records that this host's interface is too small for packet `number`. `mtu` is the interface's MTU; 0 if not
    /// known.
    pub fn refused_here(&mut self, number: u32, mtu: u32) {
        let Some(SearchPacket { size, .. }) = self.packets.get(number as usize).copied() else { return };
        self.tried.remove(&size);
        self.probing = None;
        self.refuse(size, TooLongReason::Here);
        if (self.plan.least..size).contains(&(mtu as usize)) {
            self.refuse(mtu as usize + 1, TooLongReason::Here);
        }
    }

    /// Ends the search with the current results.
    pub fn stop(&mut self) {
        self.rounds = 0;
        self.probing = None;
        self.phase = PathMtuPhase::SearchComplete;
    }
}
