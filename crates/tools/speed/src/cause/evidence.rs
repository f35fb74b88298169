//! The evidence for the limit of one direction.

use netrig_bulk::{LimitingFactor, MeasuredHost, PathDelays, TransferEnds};

use crate::measure::{LineCapacity, PhaseReport, SpeedReport};
use crate::meter::{Delays, OneWay};
use crate::protocol::{Carrier, DataDirection, Datagrams, EndReport};

/// A transfer that reached this share of the capacity is limited by the line.
const REACHED: f64 = 0.9;

/// A radio delivers less than three quarters of the bit rate of its frames (IEEE 802.11: gaps, preambles,
/// acknowledgements), and less if it shares the channel. A transfer that reached this share of the bit rate is limited
/// by the radio.
const RADIO: f64 = 0.4;

/// If headers take more than this share of the line, the verdict is short packets.
const HEADERS: f64 = 0.1;

/// Packet loss below this share does not noticeably affect congestion control.
const LOSSY: f64 = 3e-4;

/// If the receiving host dropped this share of the lost packets, the path did not lose them.
const MOST: f64 = 0.5;

/// If the receiving host dropped this share of the packets that reached it, the host is the limit, regardless of the
/// loss on the path.
const MUCH: f64 = 0.05;

/// Minimum duration of a phase for the verdict of a black hole, s. In a shorter phase, retransmissions may still be in
/// flight.
const PATIENCE_S: f64 = 1.0;

/// Minimum number of readings for a verdict.
const FEWEST: usize = 3;

/// If less than this share of the packets was lost, all offered data count as arrived.
const ALL: f64 = 1e-3;

/// All evidence on one direction.
pub(super) struct LimitEvidence<'a> {
    way: DataDirection,
    /// The phase to explain.
    phase: &'a PhaseReport,
    /// The ends of the phase.
    ends: TransferEnds<'a>,
    /// The result of a search in the same direction.
    searched: Option<&'a LineCapacity>,
    idle: Option<&'a Delays>,
    idle_ways: Option<&'a OneWay>,
    /// The rate limit of the server, payload bits per second.
    held_to: Option<f64>,
    /// Whether both ends are on the same host.
    within: bool,
}

impl<'a> LimitEvidence<'a> {
    /// The evidence for one direction, either loaded alone or (`at_once`) together with the other direction. A phase of
    /// connections is preferred to a phase of datagrams.
    pub fn of(report: &'a SpeedReport, way: DataDirection, at_once: bool) -> Option<Self> {
        let phases = || report.phases.iter().filter(|phase| phase.way == way);
        let wanted = |phase: &&PhaseReport| (phase.carrier.way() == Some(DataDirection::Both)) == at_once;
        let adapts = |phase: &&PhaseReport| phase.carrier.adapts();
        let phase = phases().filter(wanted).find(adapts).or_else(|| phases().find(wanted))?;
        let mut evidence = Self {
            way,
            phase,
            ends: TransferEnds {
                sends: if way == DataDirection::Up { MeasuredHost::Client } else { MeasuredHost::Server },
                sender: &phase.sender,
                receiver: &phase.receiver,
                connections: phase.connections.as_ref(),
                streams: phase.carrier.streams().max(1),
                payload: phase.throughput.map(|told| told.bits_per_s),
                delays: None,
            },
            searched: phases().find_map(|phase| phase.capacity.as_ref()),
            idle: report.idle.as_ref(),
            idle_ways: report.idle_ways.as_ref(),
            held_to: report.held_to,
            within: report.client.ip() == report.server.ip(),
        };
        evidence.ends.delays = evidence.delays();
        Some(evidence)
    }

    pub fn limit(&self) -> LimitingFactor {
        let limits: &[fn(&Self) -> Option<LimitingFactor>] = match self.phase.carrier {
            Carrier::Tcp { .. } | Carrier::Sctp { .. } => &[
                Self::black_hole,
                Self::too_little,
                Self::held_by_server,
                Self::line_reached,
                |own| own.ends.processor(),
                |own| own.ends.window(),
                |own| own.ends.send_buffer(),
                Self::way_back,
                Self::line_missed,
                |own| own.ends.starved(),
            ],
            _ if self.phase.capacity.is_some() => &[
                Self::unfinished,
                Self::socket_buffer,
                Self::search_starved,
                Self::held_by_server,
                Self::most_offered,
                Self::line_found,
            ],
            _ => &[
                Self::too_little,
                Self::held_by_server,
                Self::all_arrived,
                Self::socket_buffer,
                Self::not_sent,
                Self::queue_or_loss,
            ],
        };
        let steady = self.phase.throughput.is_none_or(|told| told.steady);
        let limit = limits.iter().find_map(|limit| limit(self)).unwrap_or(LimitingFactor::Unknown { steady });
        self.by_radio(&limit).unwrap_or(limit)
    }

    /// Returns the radio as the limit instead of the path, if the rate is a large share of the bit rate of the radio's
    /// frames, or if the frames that the radio discarded explain the loss.
    fn by_radio(&self, limit: &LimitingFactor) -> Option<LimitingFactor> {
        let (carries, loses) = match limit {
            LimitingFactor::Line { bits_per_s, .. } => (*bits_per_s, false),
            LimitingFactor::Loss { reached, .. } => (*reached, true),
            _ => return None,
        };
        let ends = self.ends;
        let ends = [(ends.sends, ends.sender, true), (ends.receives(), ends.receiver, false)];
        ends.into_iter().find_map(|(end, report, sends)| {
            let radio = report.radio.as_ref()?;
            let at =
                if sends { radio.transmit_bit_rate } else { radio.receive_bit_rate }.map(|bits| bits as f64);
            let share = |part: u32| f64::from(part) / f64::from(radio.sent.max(1));
            let failed = share(radio.failed);
            let is_full = at.is_some_and(|at| carries > RADIO * at);
            let is_lossy = loses && sends && failed > LOSSY;
            (is_full || is_lossy).then(|| LimitingFactor::Wifi {
                end,
                bits_per_s: carries,
                radio_bits_per_s: at,
                signal_dbm: radio.signal_dbm,
                sent_again: share(radio.sent_again),
                failed,
            })
        })
    }

    /// The received rate, bits per second of IP packets.
    fn reached(&self) -> f64 {
        self.phase.layers.map_or(0.0, |layers| layers.ip)
    }

    /// Delays under load and on the idle path, s. They are the median one-way delays of the echoes in the direction of
    /// the data, or the median round-trip times if the clocks allow no one-way delays. Without echoes (iperf3 servers),
    /// they are the kernel's mean and minimum round-trip times.
    fn delays(&self) -> Option<PathDelays> {
        let kernel = || {
            self.ends.connections.and_then(|told| PathDelays::of(told.round_trip_s, told.least_round_trip_s))
        };
        self.one_way(self.way).or_else(|| self.round_trip()).or_else(kernel)
    }

    /// Median one-way delays under load and on the idle path. The clock offset is the same in both.
    fn one_way(&self, way: DataDirection) -> Option<PathDelays> {
        let of = |ways: &OneWay| if matches!(way, DataDirection::Up) { ways.up } else { ways.down }.p50_s;
        PathDelays::of(self.phase.ways.as_ref().and_then(of), self.idle_ways.and_then(of))
    }

    fn round_trip(&self) -> Option<PathDelays> {
        let loaded = self.phase.delays.and_then(|delays| delays.p50_s);
        PathDelays::of(loaded, self.idle.and_then(|idle| idle.p50_s))
    }

    /// Queueing delay, s: the delay under load minus the delay on the idle path.
    fn queue_s(&self) -> f64 {
        self.ends.delays.map_or(0.0, PathDelays::added_s)
    }

    /// The path is a black hole for long packets if almost no data arrive, data are retransmitted, and the short echoes
    /// are answered.
    fn black_hole(&self) -> Option<LimitingFactor> {
        let connections = self.ends.connections?;
        let echoes = self.phase.delays.is_some_and(|delays| delays.p50_s.is_some());
        // On a slow line, retransmissions arrive. In a black hole, less than one packet per connection arrives.
        let mtu = self.phase.sender.path_mtu;
        let one_each = u64::from(self.ends.streams) * u64::from(mtu.unwrap_or(0));
        let series = &self.phase.series;
        let (lasted_s, bytes) = series.at_s.last().copied().zip(series.bytes.last().copied())?;
        let stuck = bytes < one_each && lasted_s >= PATIENCE_S;
        let sent_again = connections.bytes_again.filter(|bytes| *bytes > 0)?;
        (stuck && echoes && !self.ends.is_queued()).then_some(LimitingFactor::BlackHole { mtu, sent_again })
    }

    /// Too little data for a verdict: the phase was aborted early, or no data arrived over connections. If all
    /// datagrams of a longer phase are lost, this is a result.
    fn too_little(&self) -> Option<LimitingFactor> {
        let few = self.phase.series.at_s.len() < FEWEST;
        (self.phase.throughput.is_none() && (few || self.phase.carrier.adapts()))
            .then_some(LimitingFactor::Unknown { steady: false })
    }

    /// The transfer reached the rate limit of the server.
    fn held_by_server(&self) -> Option<LimitingFactor> {
        let held_to = self.held_to?;
        let searched = self.phase.capacity.as_ref().filter(|capacity| !capacity.found.saturated);
        let searched = searched.map(|capacity| capacity.layers.payload);
        let reached = self.phase.throughput.map(|told| told.bits_per_s).or(searched)?;
        (reached >= REACHED * held_to).then_some(LimitingFactor::Server { bits_per_s: held_to, reached })
    }

    /// The capacity of the line, if a search saturated the line and no host limited it.
    fn line(&self) -> Option<&LineCapacity> {
        self.searched.filter(|capacity| capacity.found.saturated && !capacity.by_hosts)
    }

    /// The transfer reached the capacity of the line, or nearly.
    fn line_reached(&self) -> Option<LimitingFactor> {
        let line = self.line()?;
        let reached = self.reached();
        (reached >= REACHED * line.layers.ip).then(|| self.of_line(line))
    }

    fn of_line(&self, line: &LineCapacity) -> LimitingFactor {
        let (bits_per_s, reached) = (line.layers.ip, self.reached());
        if is_policer(line) && self.within {
            return self.ends.of_processor(false);
        }
        if is_policer(line) {
            return LimitingFactor::Policer { bits_per_s, reached, lost: line.found.loss_above };
        }
        let headers = self.phase.layers.map_or(0.0, |layers| 1.0 - layers.payload / layers.ip);
        match self.phase.sender.path_mtu {
            Some(mtu) if headers > HEADERS => LimitingFactor::PacketSize { mtu, bits_per_s, headers },
            _ => LimitingFactor::Line { bits_per_s, reached, queue_s: self.queue_of(line) },
        }
    }

    /// Queueing delay that other traffic has on a full line, s. The queue of the search itself may be longer.
    fn queue_of(&self, line: &LineCapacity) -> f64 {
        self.ends.delays.map_or(line.found.queue_ns as f64 * 1e-9, PathDelays::added_s)
    }

    /// The data are not queued, but their acknowledgements are.
    fn way_back(&self) -> Option<LimitingFactor> {
        let back =
            if matches!(self.way, DataDirection::Up) { DataDirection::Down } else { DataDirection::Up };
        let (there, back) = self.one_way(self.way).zip(self.one_way(back))?;
        (back.is_queued() && !there.is_queued())
            .then(|| LimitingFactor::WayBack { reached: self.reached(), queue_s: back.added_s() })
    }

    /// A search that was aborted or ran out of time does not show the capacity of the line.
    fn unfinished(&self) -> Option<LimitingFactor> {
        self.phase.capacity.filter(|capacity| !capacity.complete).map(|_| LimitingFactor::Unfinished)
    }

    /// The transfer stayed below the capacity, and no host limited it: congestion control reacted to losses.
    fn line_missed(&self) -> Option<LimitingFactor> {
        let connections = self.ends.connections?;
        let Some(line) = self.line() else { return self.queue_or_loss() };
        // A search that ended before it measured the loss below the capacity does not show random loss.
        let Some(lossy) = line.found.loss_beneath else { return self.queue_or_loss() };
        connections.bytes_again.filter(|bytes| *bytes > 0)?;
        if lossy > LOSSY {
            let reached = self.reached();
            let unqueued = self.ends.delays.is_some() && !self.ends.is_queued();
            return Some(LimitingFactor::Loss {
                share: lossy,
                reached,
                beneath: true,
                searched: true,
                adapts: true,
                unqueued,
            });
        }
        Some(self.of_line(line))
    }

    /// The verdict without a search: if packets are queued, the limit is the line; if packets are lost without a queue,
    /// it is the loss.
    fn queue_or_loss(&self) -> Option<LimitingFactor> {
        let reached = self.reached();
        let came = self.phase.receiver.datagrams.unwrap_or_default();
        let carried = 1.0 + dropped(&self.phase.receiver, &came) as f64 / came.received.max(1) as f64;
        let share = match (&self.phase.sender.datagrams, &self.phase.receiver.datagrams) {
            (Some(sent), Some(came)) => Some(came.lost as f64 / sent.sent.max(1) as f64),
            _ => self.ends.connections?.sent_again,
        };
        if self.ends.is_queued() {
            let bits_per_s = reached * if self.phase.carrier.adapts() { 1.0 } else { carried };
            return Some(LimitingFactor::Line { bits_per_s, reached, queue_s: self.queue_s() });
        }
        let adapts = self.phase.carrier.adapts();
        let unqueued = self.ends.delays.is_some();
        let searched = self.searched.is_some();
        share.filter(|share| *share > LOSSY).map(|share| LimitingFactor::Loss {
            share,
            reached,
            beneath: false,
            searched,
            adapts,
            unqueued,
        })
    }

    /// The receive buffer dropped datagrams: the program read too late, or the buffer is small.
    fn socket_buffer(&self) -> Option<LimitingFactor> {
        let came = self.phase.receiver.datagrams?;
        if !is_dropped_by_host(self.phase) {
            return None;
        }
        if self.phase.receiver.is_starved() {
            return Some(self.ends.of_processor(false));
        }
        Some(LimitingFactor::SocketBuffer {
            end: self.ends.receives(),
            dropped: dropped(&self.phase.receiver, &came),
            arrived: came.received,
            bytes: self.phase.receiver.buffers.map(|[_, receive]| receive),
            chosen: self.phase.receiver.chosen_buffers[1],
        })
    }

    /// The limit of a search that never saturated the line.
    fn most_offered(&self) -> Option<LimitingFactor> {
        let capacity = self.phase.capacity.as_ref()?;
        let found = &capacity.found;
        if found.saturated || found.arrived == 0.0 {
            return None;
        }
        self.ends.starved().or_else(|| self.not_sent()).or_else(|| {
            let bits_per_s = capacity.layers.ip * found.offered / found.arrived;
            Some(LimitingFactor::Offered { bits_per_s, lost: found.loss_above })
        })
    }

    /// The limit of a search that the processors of a host limited.
    fn search_starved(&self) -> Option<LimitingFactor> {
        self.phase.capacity.as_ref().filter(|capacity| capacity.by_hosts).and_then(|_| self.ends.starved())
    }

    fn line_found(&self) -> Option<LimitingFactor> {
        let line = self.phase.capacity.as_ref().filter(|capacity| capacity.found.saturated)?;
        let (bits_per_s, found) = (line.layers.ip, &line.found);
        Some(if is_policer(line) && self.within {
            // On the loopback path, packets are dropped only because the processors of the host are too slow.
            self.ends.of_processor(false)
        } else if is_policer(line) {
            LimitingFactor::Policer { bits_per_s, reached: bits_per_s, lost: found.loss_above }
        } else {
            // The search fills its own queue. Other traffic does not necessarily wait in the same queue.
            let flooded = found.queue_ns as f64 * 1e-9;
            let loaded = self.phase.delays.and_then(|delays| delays.p95_s);
            let others = PathDelays::of(loaded, self.idle.and_then(|idle| idle.p50_s));
            let queue_s = others.map_or(flooded, |others| others.added_s().min(flooded));
            LimitingFactor::Line { bits_per_s, reached: bits_per_s, queue_s }
        })
    }

    fn all_arrived(&self) -> Option<LimitingFactor> {
        let (sent, came) = (self.phase.sender.datagrams?, self.phase.receiver.datagrams?);
        let lost = came.lost as f64 / sent.sent.max(1) as f64;
        let skipped = sent.skipped as f64 / sent.sent.saturating_add(sent.skipped).max(1) as f64;
        (lost < ALL && skipped < ALL && sent.sent > 0)
            .then(|| LimitingFactor::Offered { bits_per_s: self.reached() / (1.0 - lost), lost })
    }

    /// The sender missed its schedule.
    fn not_sent(&self) -> Option<LimitingFactor> {
        let sent = self.phase.sender.datagrams?;
        (sent.skipped as f64 > ALL * sent.sent as f64).then(|| self.ends.of_processor(true))
    }
}

/// Whether the line drops packets above its rate without queueing them.
fn is_policer(line: &LineCapacity) -> bool {
    let datagram_s = 1.0 / line.found.arrived.max(f64::MIN_POSITIVE);
    let queue_s = line.found.queue_ns as f64 * 1e-9;
    // The loss above the rate is compared with the loss below it. If the loss below the rate was not measured, the line
    // does not count as a policer.
    line.found.loss_beneath.is_some_and(|beneath| line.found.loss_above > 2.0 * beneath)
        && queue_s < PathDelays::QUEUED_S.max(2.0 * datagram_s)
}

/// Whether a host limited a search: it dropped received datagrams, or a thread that carries data had no processor time
/// left.
pub(crate) fn is_by_hosts(phase: &PhaseReport) -> bool {
    // A sender that saturated the line was not the limit, even if it was busy.
    let offered_enough = phase.capacity.is_some_and(|capacity| capacity.found.saturated);
    is_dropped_by_host(phase) || phase.receiver.is_starved() || (!offered_enough && phase.sender.is_starved())
}

/// Datagrams that reached the receiving host but no program: the socket or the queues of the processors dropped them.
fn dropped(receiver: &EndReport, came: &Datagrams) -> u64 {
    let before = receiver.host.losses.get("softnet.dropped").copied().unwrap_or(0);
    came.dropped.unwrap_or(0).saturating_add(before)
}

fn is_dropped_by_host(phase: &PhaseReport) -> bool {
    let Some(came) = &phase.receiver.datagrams else { return false };
    let dropped = dropped(&phase.receiver, came);
    let most = MOST * came.lost as f64;
    dropped > 0 && dropped as f64 > most.min(MUCH * came.received.saturating_add(dropped) as f64)
}
