//! What was counted in one way, and what it proves.

use super::limit::{LimitingFactor, MeasuredHost};
use crate::measure::{LineCapacity, PhaseReport, SpeedReport};
use crate::meter::{ConnectionSummary, Delays, OneWay};
use crate::protocol::{Carrier, DataDirection, Datagrams, EndReport};

/// A thread that runs or waits to run for this share of the time has nothing left.
const BUSY: f64 = 0.85;

/// A processor that handles packets for this share of the time has nothing left for those who want them.
const SOFTIRQ: f64 = 0.9;

/// Stolen for this share of the time, a processor is not the host's.
const STOLEN: f64 = 0.1;

/// A window or a buffer that held data back for this share of the time was the limit.
const HELD_BACK: f64 = 0.3;

/// If it held data back for a share like this, and this share of it went with each round trip, it was the limit, too: a sender
/// that paces what it sends has the rest of the time on the pacer's account.
const HELD_BACK_AT_TIMES: f64 = 0.05;
const FILLED: f64 = 0.7;

/// Who reaches this share of what the line carries has reached the line.
const REACHED: f64 = 0.9;

/// Of what its frames go at a radio gets less than three quarters through (IEEE 802.11: gaps, preambles, acknowledgements), and
/// less when others share its air: whoever gets this share has what the radio carries.
const RADIO: f64 = 0.4;

/// Longer than at best by this, s, and by this share of the idle path's round trip, packets have waited in a queue.
const QUEUED_S: f64 = 0.001;
const QUEUED: f64 = 0.1;

/// A sender whose congestion control would have let so many times as much be underway was held back by something else; its buffer
/// did so if this share of it, as the kernel counts it, was underway.
const LET: f64 = 1.5;
const HELD: f64 = 0.5;

/// Above this share of what a line carries headers are worth a word.
const HEADERS: f64 = 0.1;

/// A path that loses less than this share below its capacity loses nothing that congestion control would feel.
const LOSSY: f64 = 3e-4;

/// Of what was lost this share or more was dropped at the receiving host: then the path has not lost it. Of the time in which
/// something was missing this share or more tells whom it was missing for.
const MOST: f64 = 0.5;

/// Of what reached the receiving host it has dropped this share: it takes less than the path carries, whatever is lost there.
const MUCH: f64 = 0.05;

/// What is sent again and again for less long, s, may still be underway.
const PATIENCE_S: f64 = 1.0;

/// Of fewer readings nothing can be told.
const FEWEST: usize = 3;

/// Offered without this share being lost all of it has arrived.
const ALL: f64 = 1e-3;

/// What is known of one way.
pub(super) struct LimitEvidence<'a> {
    way: DataDirection,
    /// What is to be explained.
    phase: &'a PhaseReport,
    /// What a search found in the same way.
    searched: Option<&'a LineCapacity>,
    idle: Option<&'a Delays>,
    idle_ways: Option<&'a OneWay>,
    /// What the server holds it to, payload bits per second.
    held_to: Option<f64>,
    /// Whether the path does not leave the host.
    within: bool,
}

impl<'a> LimitEvidence<'a> {
    /// Of a way by itself, or of one while the other is full, too: connections are to be explained before datagrams.
    pub fn of(report: &'a SpeedReport, way: DataDirection, at_once: bool) -> Option<Self> {
        let phases = || report.phases.iter().filter(|phase| phase.way == way);
        let wanted = |phase: &&PhaseReport| (phase.carrier.way() == Some(DataDirection::Both)) == at_once;
        let adapts = |phase: &&PhaseReport| phase.carrier.adapts();
        let phase = phases().filter(wanted).find(adapts).or_else(|| phases().find(wanted))?;
        Some(Self {
            way,
            phase,
            searched: phases().find_map(|phase| phase.capacity.as_ref()),
            idle: report.idle.as_ref(),
            idle_ways: report.idle_ways.as_ref(),
            held_to: report.held_to,
            within: report.client.ip() == report.server.ip(),
        })
    }

    pub fn limit(&self) -> LimitingFactor {
        let limits: &[fn(&Self) -> Option<LimitingFactor>] = match self.phase.carrier {
            Carrier::Tcp { .. } | Carrier::Sctp { .. } => &[
                Self::black_hole,
                Self::too_little,
                Self::held_by_server,
                Self::line_reached,
                Self::processor,
                Self::window,
                Self::send_buffer,
                Self::way_back,
                Self::line_missed,
                Self::starved,
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

    /// The path's limit as that of a radio, if it is one's: what got through is a large part of what its frames go at, or
    /// frames that it gave up are what was lost.
    fn by_radio(&self, limit: &LimitingFactor) -> Option<LimitingFactor> {
        let (carries, loses) = match limit {
            LimitingFactor::Line { bits_per_s, .. } => (*bits_per_s, false),
            LimitingFactor::Loss { reached, .. } => (*reached, true),
            _ => return None,
        };
        let ends = [(self.sends(), &self.phase.sender, true), (self.receives(), &self.phase.receiver, false)];
        ends.into_iter().find_map(|(end, report, sends)| {
            let radio = report.radio.as_ref()?;
            let at = if sends { radio.sends_at } else { radio.receives_at }.map(|bits| bits as f64);
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

    const fn sends(&self) -> MeasuredHost {
        if matches!(self.way, DataDirection::Up) { MeasuredHost::Client } else { MeasuredHost::Server }
    }

    const fn receives(&self) -> MeasuredHost {
        if matches!(self.way, DataDirection::Up) { MeasuredHost::Server } else { MeasuredHost::Client }
    }

    /// What arrived, bits per second of IP packets.
    fn reached(&self) -> f64 {
        self.phase.layers.map_or(0.0, |layers| layers.ip)
    }

    /// How long packets took while data was carried and on the idle path, s: half of the echoes in the direction of the data, or there
    /// and back where the clocks tell no directions; where there are no echoes (servers of iperf3 send none back) the mean round trip
    /// and the least that the kernel has measured.
    fn passages_s(&self) -> Option<[f64; 2]> {
        let kernel = || self.connections().and_then(|told| told.round_trip_s.zip(told.least_round_trip_s));
        self.one_way_s(self.way).or_else(|| self.round_trips_s()).or_else(|| kernel().map(Into::into))
    }

    /// How long half of the echoes took one way, while data was carried and on the idle path, s. What is wrong with the clocks is
    /// wrong with both.
    fn one_way_s(&self, way: DataDirection) -> Option<[f64; 2]> {
        let of = |ways: &OneWay| if matches!(way, DataDirection::Up) { ways.up } else { ways.down }.p50_s;
        let loaded = self.phase.ways.as_ref().and_then(of);
        loaded.zip(self.idle_ways.and_then(of)).map(Into::into)
    }

    fn round_trips_s(&self) -> Option<[f64; 2]> {
        let loaded = self.phase.delays.and_then(|delays| delays.p50_s);
        loaded.zip(self.idle.and_then(|idle| idle.p50_s)).map(Into::into)
    }

    /// How much longer than on the idle path packets took, s.
    fn queue_s(&self) -> f64 {
        self.passages_s().map_or(0.0, waited_s)
    }

    fn is_queued(&self) -> bool {
        self.passages_s().is_some_and(is_longer)
    }

    fn connections(&self) -> Option<&ConnectionSummary> {
        self.phase.connections.as_ref()
    }

    /// Next to nothing arrives, what was sent is sent again, and the echoes, which are short, come back.
    fn black_hole(&self) -> Option<LimitingFactor> {
        let connections = self.connections()?;
        let echoes = self.phase.delays.is_some_and(|delays| delays.p50_s.is_some());
        // Of each connection not even a packet: what is sent again and again comes over a slow line, too.
        let mtu = self.phase.sender.path_mtu;
        let one_each = u64::from(self.phase.carrier.streams().max(1)) * u64::from(mtu.unwrap_or(0));
        let series = &self.phase.series;
        let (lasted_s, bytes) = series.at_s.last().copied().zip(series.bytes.last().copied())?;
        let stuck = bytes < one_each && lasted_s >= PATIENCE_S;
        let sent_again = connections.bytes_again.filter(|bytes| *bytes > 0)?;
        (stuck && echoes && !self.is_queued()).then_some(LimitingFactor::BlackHole { mtu, sent_again })
    }

    /// Broken off before there was a rate, or nothing came over connections: nobody knows what they would have got. Of datagrams all
    /// may be lost.
    fn too_little(&self) -> Option<LimitingFactor> {
        let few = self.phase.series.at_s.len() < FEWEST;
        (self.phase.throughput.is_none() && (few || self.phase.carrier.adapts()))
            .then_some(LimitingFactor::Unknown { steady: false })
    }

    /// It has got what the server lets a session have, and the path would have carried that.
    fn held_by_server(&self) -> Option<LimitingFactor> {
        let held_to = self.held_to?;
        let searched = self.phase.capacity.as_ref().filter(|capacity| !capacity.found.saturated);
        let searched = searched.map(|capacity| capacity.layers.payload);
        let reached = self.phase.throughput.map(|told| told.bits_per_s).or(searched)?;
        (reached >= REACHED * held_to).then_some(LimitingFactor::Server { bits_per_s: held_to, reached })
    }

    /// The line, as a search has found it: one that no host was in the way of.
    fn line(&self) -> Option<&LineCapacity> {
        self.searched.filter(|capacity| capacity.found.saturated && !capacity.by_hosts)
    }

    /// The transfer has got nearly all that the line carries.
    fn line_reached(&self) -> Option<LimitingFactor> {
        let line = self.line()?;
        let reached = self.reached();
        (reached >= REACHED * line.layers.ip).then(|| self.of_line(line))
    }

    fn of_line(&self, line: &LineCapacity) -> LimitingFactor {
        let (bits_per_s, reached) = (line.layers.ip, self.reached());
        if is_policer(line) && self.within {
            return self.of_processor(false);
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

    /// How long what others send waits while a line is full, s: the search floods its own queue, which need not be theirs.
    fn queue_of(&self, line: &LineCapacity) -> f64 {
        self.passages_s().map_or(line.found.queue_ns as f64 * 1e-9, waited_s)
    }

    /// A processor that left its mark on the connections: nobody took what had arrived, so that the window closed, or nobody
    /// gave the kernel something to send.
    fn processor(&self) -> Option<LimitingFactor> {
        let connections = self.connections()?;
        let closed = connections.window_limited.unwrap_or(0.0);
        let idle = connections.busy.map_or(0.0, |share| 1.0 - share);
        let (sender, receiver) = (&self.phase.sender, &self.phase.receiver);
        let takes = closed > HELD_BACK_AT_TIMES && is_starved(receiver) || is_waiting(receiver, closed);
        let gives = idle > 1.0 - BUSY && is_starved(sender) || is_waiting(sender, idle);
        (takes || gives).then(|| self.of_processor(!takes))
    }

    /// A processor at the end that sends, or at the one that receives.
    fn of_processor(&self, sends: bool) -> LimitingFactor {
        let (report, end) =
            if sends { (&self.phase.sender, self.sends()) } else { (&self.phase.receiver, self.receives()) };
        let stolen = report.host.processors.iter().map(|share| share.steal).fold(0.0, f64::max);
        let [ran, waited] = of_thread(report);
        // For the rest of the time programs of the host itself were before it.
        if stolen > STOLEN.max(MOST * waited) {
            return LimitingFactor::Stolen { end, share: stolen };
        }
        LimitingFactor::Processor { end, sends, ran, waited, softirq: softirq(report) }
    }

    /// A host whose processors had nothing left, where nothing else tells what the limit was; of both the one that wanted more.
    fn starved(&self) -> Option<LimitingFactor> {
        let wanted = |report: &EndReport| of_thread(report).iter().sum::<f64>();
        let flooded = |report: &EndReport| softirq(report) > SOFTIRQ;
        let (sender, receiver) = (&self.phase.sender, &self.phase.receiver);
        let sends = wanted(sender) >= wanted(receiver);
        match (is_starved(sender) || is_starved(receiver), flooded(receiver), flooded(sender)) {
            (true, ..) => Some(self.of_processor(sends)),
            (_, true, _) => Some(self.of_processor(false)),
            (.., true) => Some(self.of_processor(true)),
            _ => None,
        }
    }

    fn window(&self) -> Option<LimitingFactor> {
        let connections = self.connections()?;
        let (share, bytes) = connections.window_limited.zip(connections.window)?;
        let round_trip_s = connections.round_trip_s.unwrap_or(0.0);
        let streams = self.phase.carrier.streams().max(1);
        let in_flight = self.underway().unwrap_or(0.0);
        let filled = share > HELD_BACK_AT_TIMES && in_flight > FILLED * bytes;
        (filled || share > HELD_BACK).then_some(LimitingFactor::Window {
            end: self.receives(),
            bytes,
            round_trip_s,
            share,
            connections: streams,
            told: self.phase.receiver.window.is_some(),
            chosen: self.phase.receiver.chosen_buffers[1],
            needed: 2.0 * in_flight,
        })
    }

    /// The kernel counts for how long a buffer had nothing more to send, but of a sender that paces: of one that is as long as the
    /// program chose, what was underway beside what might have been tells.
    fn send_buffer(&self) -> Option<LimitingFactor> {
        let connections = self.connections()?;
        let share = connections.buffer_limited?;
        let (chosen, bytes) =
            (self.phase.sender.chosen_buffers[0], self.phase.sender.buffers.map(|[send, _]| send));
        let underway = self.underway().unwrap_or(0.0);
        let filled = bytes.is_some_and(|bytes| underway > HELD * bytes as f64);
        let let_be = connections.cwnd.unwrap_or(0.0);
        let is_short = chosen && filled && let_be > LET * underway;
        (share > HELD_BACK || is_short).then_some(LimitingFactor::SendBuffer {
            end: self.sends(),
            bytes,
            share: if share > HELD_BACK { share } else { 0.0 },
            chosen,
            underway: [underway, let_be],
        })
    }

    /// Data of a connection that was underway in the mean, bytes.
    fn underway(&self) -> Option<f64> {
        let payload = self.phase.throughput?.bits_per_s;
        let streams = self.phase.carrier.streams().max(1);
        Some(payload / 8.0 * self.connections()?.round_trip_s? / f64::from(streams))
    }

    /// Nothing waits on the way of the data, and what acknowledges it waits on the way back.
    fn way_back(&self) -> Option<LimitingFactor> {
        let back =
            if matches!(self.way, DataDirection::Up) { DataDirection::Down } else { DataDirection::Up };
        let (there, back) = self.one_way_s(self.way).zip(self.one_way_s(back))?;
        (is_longer(back) && !is_longer(there))
            .then(|| LimitingFactor::WayBack { reached: self.reached(), queue_s: waited_s(back) })
    }

    /// A search that was broken off, or whose time was over, says nothing of the line.
    fn unfinished(&self) -> Option<LimitingFactor> {
        self.phase.capacity.filter(|capacity| !capacity.complete).map(|_| LimitingFactor::Unfinished)
    }

    /// No host held it back, and yet it has not got what the line carries: congestion control did, because of losses.
    fn line_missed(&self) -> Option<LimitingFactor> {
        let connections = self.connections()?;
        let Some(line) = self.line() else { return self.queue_or_loss() };
        // A search that ended before it had seen that says nothing of what is lost at random.
        let Some(lossy) = line.found.loss_beneath else { return self.queue_or_loss() };
        connections.bytes_again.filter(|bytes| *bytes > 0)?;
        if lossy > LOSSY {
            let reached = self.reached();
            let unqueued = self.passages_s().is_some() && !self.is_queued();
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

    /// What can be told without a search: a line keeps packets waiting, other losses do not.
    fn queue_or_loss(&self) -> Option<LimitingFactor> {
        let reached = self.reached();
        let came = self.phase.receiver.datagrams.unwrap_or_default();
        let carried = 1.0 + dropped(&self.phase.receiver, &came) as f64 / came.received.max(1) as f64;
        let share = match (&self.phase.sender.datagrams, &self.phase.receiver.datagrams) {
            (Some(sent), Some(came)) => Some(came.lost as f64 / sent.sent.max(1) as f64),
            _ => self.connections()?.sent_again,
        };
        if self.is_queued() {
            let bits_per_s = reached * if self.phase.carrier.adapts() { 1.0 } else { carried };
            return Some(LimitingFactor::Line { bits_per_s, reached, queue_s: self.queue_s() });
        }
        let adapts = self.phase.carrier.adapts();
        let unqueued = self.passages_s().is_some();
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

    /// Datagrams had arrived and found no room in the socket: because nobody took them in time, or because it is small.
    fn socket_buffer(&self) -> Option<LimitingFactor> {
        let came = self.phase.receiver.datagrams?;
        if !is_dropped_by_host(self.phase) {
            return None;
        }
        if is_starved(&self.phase.receiver) {
            return Some(self.of_processor(false));
        }
        Some(LimitingFactor::SocketBuffer {
            end: self.receives(),
            dropped: dropped(&self.phase.receiver, &came),
            arrived: came.received,
            bytes: self.phase.receiver.buffers.map(|[_, receive]| receive),
            chosen: self.phase.receiver.chosen_buffers[1],
        })
    }

    /// A search that never offered more than came through.
    fn most_offered(&self) -> Option<LimitingFactor> {
        let capacity = self.phase.capacity.as_ref()?;
        let found = &capacity.found;
        if found.saturated || found.arrived == 0.0 {
            return None;
        }
        self.starved().or_else(|| self.not_sent()).or_else(|| {
            let bits_per_s = capacity.layers.ip * found.offered / found.arrived;
            Some(LimitingFactor::Offered { bits_per_s, lost: found.loss_above })
        })
    }

    /// A search whose hosts had not the processor that it took.
    fn search_starved(&self) -> Option<LimitingFactor> {
        self.phase.capacity.as_ref().filter(|capacity| capacity.by_hosts).and_then(|_| self.starved())
    }

    fn line_found(&self) -> Option<LimitingFactor> {
        let line = self.phase.capacity.as_ref().filter(|capacity| capacity.found.saturated)?;
        let (bits_per_s, found) = (line.layers.ip, &line.found);
        Some(if is_policer(line) && self.within {
            // Nothing is on the way that could drop something: a host's own processors had no time for it.
            self.of_processor(false)
        } else if is_policer(line) {
            LimitingFactor::Policer { bits_per_s, reached: bits_per_s, lost: found.loss_above }
        } else {
            // The search floods its own queue, in which others need not wait.
            let flooded = found.queue_ns as f64 * 1e-9;
            let others =
                self.phase.delays.and_then(|delays| delays.p95_s).zip(self.idle.and_then(|idle| idle.p50_s));
            let queue_s = others.map_or(flooded, |others| waited_s(others.into()).min(flooded));
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

    /// The sender could not send what was due.
    fn not_sent(&self) -> Option<LimitingFactor> {
        let sent = self.phase.sender.datagrams?;
        (sent.skipped as f64 > ALL * sent.sent as f64).then(|| self.of_processor(true))
    }
}

/// How much longer packets took than on the idle path, s.
fn waited_s([loaded, idle]: [f64; 2]) -> f64 {
    (loaded - idle).max(0.0)
}

/// Whether they waited in a queue for that.
fn is_longer(passages: [f64; 2]) -> bool {
    waited_s(passages) > QUEUED_S.max(QUEUED * passages[1])
}

/// Whether the line loses what exceeds its rate, and keeps no queue.
fn is_policer(line: &LineCapacity) -> bool {
    let datagram_s = 1.0 / line.found.arrived.max(f64::MIN_POSITIVE);
    let queue_s = line.found.queue_ns as f64 * 1e-9;
    // Who has not seen what is lost beneath its rate does not know what exceeds that.
    line.found.loss_beneath.is_some_and(|beneath| line.found.loss_above > 2.0 * beneath)
        && queue_s < QUEUED_S.max(2.0 * datagram_s)
}

/// Whether a host was in the way of what a search was to find of the line: it dropped what had arrived, or a thread that
/// carries data had no processor left.
pub(crate) fn is_by_hosts(phase: &PhaseReport) -> bool {
    // Who offered more than came through was not the limit, however busy it was with that.
    let offered_enough = phase.capacity.is_some_and(|capacity| capacity.found.saturated);
    is_dropped_by_host(phase) || is_starved(&phase.receiver) || (!offered_enough && is_starved(&phase.sender))
}

/// Whether the threads that carry data ran, or waited to run, nearly all the time.
fn is_starved(report: &EndReport) -> bool {
    of_thread(report).iter().sum::<f64>() > BUSY
}

/// Whether data was held back for a large share of the time, and the threads that carry it waited for a processor for most of that:
/// between two times at which they get one they may well sleep, while what they asked for is underway.
fn is_waiting(report: &EndReport, held_back: f64) -> bool {
    let [_, waited] = of_thread(report);
    held_back > HELD_BACK && waited > MOST * held_back
}

/// Shares of the time in which the threads of an end ran, and waited for a processor.
fn of_thread(report: &EndReport) -> [f64; 2] {
    // A thread that is ended runs for a moment longer than what it carries.
    let of = |nanos: u64| (nanos as f64 / report.threads_ns.max(1) as f64).min(1.0);
    [of(report.ran_ns), of(report.waited_ns)]
}

fn softirq(report: &EndReport) -> f64 {
    report.host.processors.iter().map(|share| share.softirq).fold(0.0, f64::max)
}

/// Datagrams that reached the receiving host and no program: the socket's own count, or that of its processors' queues.
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
