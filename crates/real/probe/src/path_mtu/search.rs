//! The search for how long packets may be (Datagram PLPMTUD, RFC 8899): which is sent next, and what is known; told the time,
//! no socket, no clock.
//!
//! All sizes are octets of whole IP packets. What is here is there:
//!
//! | here | RFC 8899 section 5 |
//! |---|---|
//! | [`PathMtuPlan::least`], [`PathMtuPlan::base`], [`PathMtuPlan::most`] | MIN_PLPMTU, BASE_PLPMTU, MAX_PLPMTU |
//! | [`PathMtuPlan::probes`], [`PathMtuPlan::timer`] | MAX_PROBES, PROBE_TIMER |
//! | [`PathMtuPhase`] | the phases |
//! | [`PathMtuSearch::confirmed`] | PLPMTU |
//!
//! A search begins with the base, then tries the longest, then the size that a host on the way says its link carries, and
//! else the sizes that links have, the middle one of those that are left. At its end the size above what is confirmed was
//! tried and has not come through. Where nobody said why, both are tried in turns once more: chance does not tell two sizes
//! apart so often.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::{Duration, Instant};
use serde::Serialize;

/// What links carry: loopback, jumbo frames, FDDI, Ethernet, PPPoE, tunnels of IPv4 and IPv6 and of IPsec, what is left of
/// Ethernet by several of them, the least of IPv6 and of old links.
const COMMON: [usize; 26] = [
    65_535, 9216, 9180, 9000, 8192, 4352, 2048, 2002, 1500, 1492, 1480, 1476, 1472, 1462, 1452, 1442, 1430,
    1420, 1412, 1400, 1380, 1358, 1320, 1280, 1006, 576,
];

/// How often both sizes are tried once more where nobody said why one does not come through.
const ROUNDS: u32 = 3;

/// Packets of one search: on a path that loses so many that it does not come to an end.
const MOST_PACKETS: usize = 2000;

/// How often a search may begin anew.
const MOST_BEGINNINGS: u32 = 3;

/// The timer is so many times the longest round trip, once there is one, and no less than this.
const PATIENCE: u64 = 3;
const LEAST_TIMER: Duration = Duration::from_millis(200);

/// What a search is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtuPlan {
    /// The least that every path carries.
    pub least: usize,
    /// What most paths carry.
    pub base: usize,
    /// More is not tried.
    pub most: usize,
    /// Packets of one size that must be lost before it counts as too long.
    pub probes: u32,
    /// After so long a packet counts as lost; less once round trips are known.
    pub timer: Duration,
}

impl PathMtuPlan {
    /// The search between these sizes, if they are in their order.
    pub const fn new(least: usize, base: usize, most: usize, probes: u32, timer: Duration) -> Option<Self> {
        let sound = 0 < least && least <= base && base <= most && probes > 0 && !timer.is_zero();
        if sound { Some(Self { least, base, most, probes, timer }) } else { None }
    }
}

/// Where a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathMtuPhase {
    /// Whether the base comes through.
    Base,
    /// How much more does.
    Search,
    /// It is known.
    SearchComplete,
    /// Not even the base does.
    Error,
}

/// Why a size counts as too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TooLongReason {
    /// More was not tried.
    Untried,
    /// This host's own interface carries no more.
    Here,
    /// A host on the way said so.
    Told {
        /// Who.
        by: IpAddr,
        /// What its next link carries, as it says; 0 if it does not.
        mtu: u32,
    },
    /// Packets vanish, and nobody says why.
    Vanished,
}

/// What became of packets of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeCounts {
    /// Packets sent.
    pub sent: u32,
    /// Packets that were answered.
    pub answered: u32,
    /// Packets of which a host on the way said that they are too long.
    pub told: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathMtuStep {
    /// A packet of this number and size is to be sent now.
    Send {
        /// Its number.
        number: u32,
        /// Its size.
        size: usize,
    },
    /// Nothing before this, unless something comes.
    Wait(Instant),
    /// All is known that can be.
    Over,
}

/// A packet that may still be answered.
#[derive(Clone, Copy, Debug)]
struct SearchPacket {
    size: usize,
    sent: Instant,
    answered: bool,
}

/// The size that is tried now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SizeProbing {
    size: usize,
    /// Packets of it that were lost.
    lost: u32,
    /// The number of the one on its way, and when it is lost.
    open: Option<(u32, Instant)>,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct PathMtuSearch {
    plan: PathMtuPlan,
    phase: PathMtuPhase,
    /// The largest size that came through; nothing before the first.
    confirmed: usize,
    /// The smallest size that counts as too long, and why; one more than the most before the first.
    refused: (usize, TooLongReason),
    /// What a host on the way says its link carries, until that was tried.
    hint: Option<usize>,
    /// What one said last.
    hinted: usize,
    probing: Option<SizeProbing>,
    /// Rounds of both sizes that are left.
    rounds: u32,
    beginnings: u32,
    packets: Vec<SearchPacket>,
    tried: BTreeMap<usize, SizeCounts>,
    longest: Duration,
    untrue: u32,
    unsteady: bool,
}

impl PathMtuSearch {
    /// A search that has sent nothing.
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

    /// Where it is.
    pub const fn phase(&self) -> PathMtuPhase {
        self.phase
    }

    /// The largest size that came through; nothing if none did.
    pub fn confirmed(&self) -> Option<usize> {
        Some(self.confirmed).filter(|size| *size > 0)
    }

    /// The smallest size that did not come through, and why.
    pub const fn refused(&self) -> (usize, TooLongReason) {
        self.refused
    }

    /// What became of the packets of each size.
    pub const fn tried(&self) -> &BTreeMap<usize, SizeCounts> {
        &self.tried
    }

    /// Messages about packets that were too long which cannot be true: of more than the packet had, of less than any path
    /// carries, or of less than came through.
    pub const fn untrue(&self) -> u32 {
        self.untrue
    }

    /// What had come through did so no more, and the search began anew.
    pub const fn is_unsteady(&self) -> bool {
        self.unsteady
    }

    /// What comes next. A packet that is to be sent counts as sent at `now`.
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

    /// Packets of the size that is tried that may be lost.
    fn allowed(&self) -> u32 {
        if self.is_verifying() { 1 } else { self.plan.probes }
    }

    /// Whether what is known is only tried once more.
    fn is_verifying(&self) -> bool {
        self.phase == PathMtuPhase::SearchComplete
    }

    /// How long a packet is waited for. RFC 8899 section 5.1.1 has a second at least, for a transport that goes on meanwhile;
    /// somebody waits for a search.
    fn timer(&self) -> Duration {
        if self.longest.is_zero() {
            return self.plan.timer;
        }
        (self.longest * PATIENCE).max(LEAST_TIMER).min(self.plan.timer)
    }

    /// The next size to be tried.
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

    /// A size between what came through and what did not, if there is one.
    fn between(&mut self) -> Option<usize> {
        let (low, high) = (self.confirmed, self.refused.0);
        let inside = |size: usize| low < size && size < high;
        if let Some(hint) = self.hint.take().filter(|hint| inside(*hint)) {
            return Some(hint);
        }
        if !inside(low + 1) {
            return None;
        }
        // Most paths carry what this host's interface does; and who says what a link carries is mostly right.
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

    /// Both sizes in turns, while it is not sure that it is their length.
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

    /// All packets of the size that was tried were lost.
    fn gave_up(&mut self) {
        let Some(SizeProbing { size, .. }) = self.probing.take() else { return };
        if self.is_verifying() {
            return;
        }
        if size <= self.confirmed {
            // What came through does so no more.
            return self.begin_anew();
        }
        self.refuse(size, TooLongReason::Vanished);
    }

    /// A size counts as too long.
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

    /// A packet came through; whether it was one of ours that had not been answered.
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
        // What came through counts, whoever said that it does not.
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

    /// A host on the way says of packet `number` that its next link carries `mtu`; 0 if it does not say how much. It is
    /// believed as far as RFC 8899 section 4.6.2 goes: it says what to try next.
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
            // It came through before: it must be shown what does now.
            return self.begin_anew();
        }
        self.refuse(size, TooLongReason::Told { by, mtu });
        if mtu != 0 && mtu_size < self.confirmed {
            self.untrue += 1;
            // More than that came through, which is tried again.
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

    /// This host's interface does not carry packet `number`, but `mtu`; 0 if that is not known.
    pub fn refused_here(&mut self, number: u32, mtu: u32) {
        let Some(SearchPacket { size, .. }) = self.packets.get(number as usize).copied() else { return };
        self.tried.remove(&size);
        self.probing = None;
        self.refuse(size, TooLongReason::Here);
        if (self.plan.least..size).contains(&(mtu as usize)) {
            self.refuse(mtu as usize + 1, TooLongReason::Here);
        }
    }

    /// It ends with what is known.
    pub fn stop(&mut self) {
        self.rounds = 0;
        self.probing = None;
        self.phase = PathMtuPhase::SearchComplete;
    }
}
