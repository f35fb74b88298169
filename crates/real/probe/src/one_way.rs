//! `probe owd` and `probe loss`: one direction of a path, measured together with a far end, which sends the packets or
//! records their arrivals.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Size, settings};
use netrig_stats::path::Delays;

use super::control::{
    self, ControlConnection, FromFarEnd, FromProbe, StreamDirection, StreamRequest, unexpected,
};
use super::error::{ProbeError, ProbeResult};
use super::offset::ClockOffset;
use super::report::{CONFIDENCE, ProbeReport, Punctuality, Section, Stamps};
use super::schedule::{Gaps, source_fault};
use super::socket::ProbeSocket;
use super::stamp::HmacKey;
use super::stream::{SentStream, StreamEnd, StreamLog};
use super::stream_packet::LEAST;
use super::two_way::{PACKETS, PacketSettings};
use super::{path_sections, seconds_between};
use netrig_host::frames::{read_frame, write_frame};
use netrig_host::random;
use netrig_host::socket::LONGEST_DATAGRAM;
use netrig_host::{HostAddress, RealtimeOffset, SourceReport, is_readable};

/// Maximum wait for the last arrivals after an interruption.
const SHORT_WAIT: Duration = Duration::from_millis(200);

/// Which results of a stream are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneWayMetric {
    /// Quantiles of delay in which a lost packet counts as infinitely late (`owd`).
    Delay,
    /// Loss, its pattern and reordering (`loss`). No clock is needed.
    Loss,
}

settings! {
    /// The settings of a one-way probe.
    #[derive(Clone, Debug)]
    pub struct OneWaySettings with defaults {
        /// Send from the far end to here.
        reverse: bool {};
        /// UDP payload of each packet: 24 B at least.
        size: Size { heading: PACKETS } = Size::from_bytes(64);
    }
}

/// The order of a one-way probe.
#[derive(Clone, Debug)]
pub struct OneWayOrder {
    /// Address of the far end.
    pub target: SocketAddr,
    /// Which results are reported.
    pub metric: OneWayMetric,
    /// Number, schedule and waiting time of the packets.
    pub packets: PacketSettings,
    /// Its settings.
    pub settings: OneWaySettings,
    /// The far end's key.
    pub key: Option<HmacKey>,
}

impl OneWayOrder {
    fn check(&self) -> ProbeResult {
        self.packets.plan().check()?;
        let size = self.settings.size.to_usize();
        if (LEAST..=LONGEST_DATAGRAM).contains(&size) {
            return Ok(());
        }
        Err(ProbeError::Request(format!("--size {size} B: expected {LEAST} B to {LONGEST_DATAGRAM} B")))
    }

    const fn direction(&self) -> StreamDirection {
        if self.settings.reverse { StreamDirection::Back } else { StreamDirection::There }
    }
}

/// The records of both ends of a stream.
struct StreamOutcome {
    sent: Vec<u64>,
    sent_stamped: usize,
    log: StreamLog,
    source: SourceReport,
    faults: Vec<String>,
    interrupted: bool,
    offset: ClockOffset,
}

/// Measures one direction of a path.
///
/// Fails if the order is invalid, or if the far end cannot be reached or fails.
pub fn one_way(order: &OneWayOrder, cancel: &AtomicBool) -> ProbeResult<ProbeReport> {
    order.check()?;
    let mut session = OneWaySession::open(order, cancel)?;
    let wall = RealtimeOffset::measure();
    session.ask()?;
    let mut passed = match order.direction() {
        StreamDirection::There => session.there()?,
        StreamDirection::Back => session.back()?,
    };
    if let Some(step) = RealtimeOffset::measure().stepped_since(&wall) {
        passed.faults.push(format!("the wall clock was stepped by {} s", step.as_secs_f64()));
    }
    report(order, passed)
}

/// A session with a far end that has accepted the stream.
struct OneWaySession<'a> {
    order: &'a OneWayOrder,
    cancel: &'a AtomicBool,
    control: TcpStream,
    end: StreamEnd,
    log: StreamLog,
    one_clock: bool,
}

impl<'a> OneWaySession<'a> {
    fn open(order: &'a OneWayOrder, cancel: &'a AtomicBool) -> ProbeResult<Self> {
        let target = order.target;
        let ControlConnection { stream: mut control, one_clock } = control::call(target, order.key.as_ref())?;
        let token = u64::from_ne_bytes(random().map_err(ProbeError::kernel("/dev/urandom"))?);
        let (poisson, gap) = match order.packets.plan().gaps {
            Gaps::Poisson(mean) => (true, mean),
            Gaps::Periodic(gap) => (false, gap),
        };
        write_frame(
            &mut control,
            &FromProbe::Stream(StreamRequest {
                direction: order.direction(),
                token,
                count: order.packets.count,
                poisson,
                gap_ns: gap.as_nanos(),
                wait_ns: order.packets.wait.as_nanos(),
                seed: order.packets.seed,
                size: order.settings.size.to_usize(),
                dscp: order.packets.dscp.0,
            }),
        )?;
        let port = match read_frame(&mut control)? {
            Some(FromFarEnd::Ready { port }) => port,
            Some(FromFarEnd::Refused { why }) => {
                return Err(ProbeError::Request(format!("{target} refuses: {why}")));
            }
            _ => return Err(unexpected(target)),
        };
        let local = control.local_addr().map_err(ProbeError::kernel("getsockname"))?;
        let local = HostAddress::from(local).at(0);
        let peer = HostAddress::from(target).at(port);
        let end = StreamEnd::connected(ProbeSocket::asking(local, order.packets.dscp.0)?, token, peer);
        let end = end.map_err(|error| ProbeError::send(peer, error))?;
        let log = StreamLog { most: order.packets.count as usize * 2, ..StreamLog::default() };
        Ok(Self { order, cancel, control, end, log, one_clock })
    }

    /// Measures the far end's clock offset. The far end learns the UDP port of this end from these packets.
    fn ask(&mut self) -> ProbeResult {
        let cancel = self.cancel;
        if self.end.ask(&mut self.log, || cancel.load(Ordering::Relaxed))? || cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        let sentences = self.log.icmp_errors.sentences();
        let icmp_errors: String = sentences.iter().map(|sentence| format!("; {sentence}")).collect();
        Err(ProbeError::FarEnd {
            target: self.order.target,
            why: format!("the far end answers over TCP, but no UDP packet came back{icmp_errors}"),
            advice: "let UDP through the firewall between the two hosts",
        })
    }

    /// Sends the stream and reads the arrivals from the far end.
    fn there(mut self) -> ProbeResult<StreamOutcome> {
        let Self { order, cancel, .. } = self;
        let stop = || cancel.load(Ordering::Relaxed);
        let sent =
            self.end.stream(order.packets.plan(), order.settings.size.to_usize(), &mut self.log, stop)?;
        let interrupted = stop();
        let wait = if interrupted { order.packets.wait.min(SHORT_WAIT) } else { order.packets.wait };
        self.end.linger(wait, &mut self.log, || false)?;
        self.end.ask(&mut self.log, || false)?;
        write_frame(&mut self.control, &FromProbe::Finish)?;
        let StreamLog { exchanges, icmp_errors, .. } = std::mem::take(&mut self.log);
        let mut log = StreamLog { exchanges, icmp_errors, ..StreamLog::default() };
        let mut faults = source_faults(&sent, order.packets.plan().gaps, "this host");
        loop {
            match self.read_message()? {
                FromFarEnd::Packets { numbers, at }
                    if log.arrivals.len() + at.len() <= 2 * order.packets.count as usize =>
                {
                    log.arrivals.extend(numbers.into_iter().zip(at));
                }
                FromFarEnd::Done(done) => {
                    log = StreamLog { stamped: done.stamped, dscps: done.dscps, ttls: done.ttls, ..log };
                    faults.extend(done.faults);
                    break;
                }
                _ => return Err(unexpected(order.target)),
            }
        }
        let offset = self.offset(&log);
        let SentStream { at, stamped, source, .. } = sent;
        Ok(StreamOutcome { sent: at, sent_stamped: stamped, log, source, faults, interrupted, offset })
    }

    /// Asks the far end to send, records the arrivals and reads the sending times from the far end.
    fn back(mut self) -> ProbeResult<StreamOutcome> {
        write_frame(&mut self.control, &FromProbe::Begin)?;
        let (plan, cancel) = (self.order.packets.plan(), self.cancel);
        let (mut sent, mut interrupted) = (Vec::new(), false);
        let done = loop {
            let control = &self.control;
            self.end.linger(Duration::from_millis(50), &mut self.log, || is_readable(control))?;
            if cancel.load(Ordering::Relaxed) && !interrupted {
                write_frame(&mut self.control, &FromProbe::Finish)?;
                interrupted = true;
            }
            if is_readable(&self.control) {
                match self.read_message()? {
                    FromFarEnd::Packets { at, .. } if sent.len() + at.len() <= plan.count as usize => {
                        sent.extend(at);
                    }
                    FromFarEnd::Done(done) => break done,
                    _ => return Err(unexpected(self.order.target)),
                }
            }
        };
        let wait = if interrupted { plan.wait.min(SHORT_WAIT) } else { plan.wait };
        self.end.linger(wait, &mut self.log, || false)?;
        if !interrupted {
            self.end.ask(&mut self.log, || false)?;
            write_frame(&mut self.control, &FromProbe::Finish)?;
        }
        let mut faults = done.faults;
        let drops = self.end.drops()?;
        if drops > 0 {
            faults.push(format!("{drops} packets reached this host, but the socket had no room for them"));
        }
        let Some(source) = done.source else {
            return Err(unexpected(self.order.target));
        };
        let log = std::mem::take(&mut self.log);
        let offset = self.offset(&log);
        Ok(StreamOutcome {
            sent,
            sent_stamped: done.stamped,
            log,
            source: *source,
            faults,
            interrupted,
            offset,
        })
    }

    fn offset(&self, log: &StreamLog) -> ClockOffset {
        if self.one_clock { ClockOffset::Same } else { ClockOffset::of(&log.exchanges) }
    }

    fn read_message(&mut self) -> ProbeResult<FromFarEnd> {
        match read_frame(&mut self.control)? {
            Some(FromFarEnd::Refused { why }) => Err(ProbeError::FarEnd {
                target: self.order.target,
                why,
                advice: "check the output of `netrig probe reflect` there",
            }),
            Some(words) => Ok(words),
            None => Err(ProbeError::FarEnd {
                target: self.order.target,
                why: "the far end closed the connection".into(),
                advice: "check the output of `netrig probe reflect` there",
            }),
        }
    }
}

/// Reasons why a sender, not the path, limited the measurement.
pub(super) fn source_faults(sent: &SentStream, gaps: Gaps, whose: &str) -> Vec<String> {
    let mut faults: Vec<_> =
        source_fault(&sent.source, gaps).map(|fault| format!("{whose}: {fault}")).into_iter().collect();
    if sent.no_room > 0 {
        faults.push(format!(
            "{whose}: the sending socket had no room for {} packets: send more slowly",
            sent.no_room
        ));
    }
    faults
}

impl StreamOutcome {
    /// The delay of each packet that arrived in time, and the packet numbers of all arrivals in the order of arrival.
    fn delays(&self, order: &OneWayOrder) -> (Vec<Option<f64>>, Vec<u64>) {
        let (ahead, bound) = self.offset.correction().unwrap_or((0.0, f64::INFINITY));
        let mut delays: Vec<Option<f64>> = vec![None; self.sent.len()];
        let mut order_of_arrival = Vec::with_capacity(self.log.arrivals.len());
        for (number, at) in &self.log.arrivals {
            let Some(sent) = self.sent.get(*number as usize) else { continue };
            order_of_arrival.push(u64::from(*number));
            let delay = seconds_between(*sent, *at);
            // RFC 7680 section 2.6: a packet that takes longer than the waiting time is lost.
            if delay - order.direction().sign() * ahead - bound <= order.packets.wait.as_secs_f64() {
                delays[*number as usize].get_or_insert(delay);
            }
        }
        if self.interrupted {
            // The last packets may still be in flight. They count neither as lost nor as received.
            let last = self.sent.last().copied().unwrap_or(0);
            let still = last.saturating_sub(order.packets.wait.as_nanos());
            let known = self.sent.iter().zip(&delays).map(|(at, delay)| *at < still || delay.is_some());
            delays = known.zip(&delays).filter_map(|(known, delay)| known.then_some(*delay)).collect();
        }
        (delays, order_of_arrival)
    }

    /// The sections of the report, in the order of display.
    fn sections(&self, order: &OneWayOrder) -> ProbeResult<Vec<Section>> {
        let (delays, order_of_arrival) = self.delays(order);
        let mut section = Section::new(match order.direction() {
            StreamDirection::There => "there",
            StreamDirection::Back => "back",
        });
        let lost = delays.iter().map(|delay| delay.map(|_| 0.0));
        path_sections::loss(&mut section, &Delays::new(lost)?)?;
        if order.metric == OneWayMetric::Delay {
            path_sections::one_way_delay(&mut section, &delays, &self.offset, order.direction().sign())?;
            path_sections::variation(&mut section, &delays)?;
        }
        let mut pattern = Section::new("pattern");
        path_sections::loss_pattern(&mut pattern, delays.iter().map(Option::is_none));
        path_sections::order(&mut pattern, &order_of_arrival);
        Ok(vec![section, pattern])
    }
}

fn report(order: &OneWayOrder, passed: StreamOutcome) -> ProbeResult<ProbeReport> {
    let mut report = ProbeReport {
        probe: match order.metric {
            OneWayMetric::Delay => "owd",
            OneWayMetric::Loss => "loss",
        },
        target: order.target.to_string(),
        confidence: CONFIDENCE,
        valid: passed.faults.is_empty(),
        sections: passed.sections(order)?,
        faults: passed.faults,
        interrupted: passed.interrupted,
        notes: passed.log.icmp_errors.sentences(),
        icmp_errors: passed.log.icmp_errors.clone(),
        source: Punctuality::from(&passed.source),
        stamps: Stamps {
            sent: passed.sent.len(),
            sent_by_kernel: passed.sent_stamped,
            received: passed.log.arrivals.len(),
            received_by_kernel: passed.log.stamped,
        },
    };
    if passed.log.arrivals.len() >= 2 * order.packets.count as usize {
        report.fault("more copies arrived than the far end records");
    }
    report.note_arrival_fields(order.packets.dscp.0, &passed.log.dscps, &passed.log.ttls);
    if order.metric == OneWayMetric::Delay {
        report.offset(&passed.offset);
    }
    Ok(report)
}
