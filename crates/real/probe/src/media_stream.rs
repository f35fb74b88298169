//! Sends datagrams to a receiver by a schedule, and matches them with their arrivals.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::number::{counted, time};
use netrig_core::{Duration, Instant};
use serde_json::{Value, json};

use super::icmp_error::IcmpErrors;
use super::pacing::{self, PacketReceiver, PacketSender};
use super::receiver::{ReceivedDatagram, ReceivedDatagrams, Remote, generous};
use super::socket::{ProbeSocket, is_refusal};
use super::{ProbeError, ProbeResult};
use netrig_host::{Clock, HostAddress, RequestedGaps};

/// Bytes of a datagram that the receiver records. A datagram that fits into an Ethernet frame is recorded completely.
const KEEP: u16 = 1_500;

/// A datagram and its scheduled time.
#[derive(Clone, Debug)]
pub(super) struct ScheduledDatagram {
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// The clocks from which one-way delays are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DelayBasis {
    /// Both ends read the same clock.
    OneClock,
    /// Two unrelated clocks. The shortest delay is assumed to be half the round-trip time. All delays have the same
    /// error.
    Assumed {
        /// Maximum error of the delays: half the round-trip time over the control connection, s.
        within_s: f64,
    },
}

impl DelayBasis {
    /// The clocks as text for the user.
    pub fn text(self) -> String {
        match self {
            Self::OneClock => "one clock at both ends".to_owned(),
            Self::Assumed { within_s } => format!(
                "two clocks: the shortest is taken for half of the round trip, so all are wrong by the same {} at most",
                time(within_s)
            ),
        }
    }

    /// The clocks in a JSON document.
    pub fn document(self) -> Value {
        match self {
            Self::OneClock => json!({ "clock": "one", "error_s": 0.0 }),
            Self::Assumed { within_s } => json!({ "clock": "assumed", "error_s": within_s }),
        }
    }
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaDatagram {
    /// Its index among all sent datagrams, from 0.
    pub number: u64,
    /// Time of sending, s since the start.
    pub sent_s: f64,
    /// Its delay, s.
    pub delay_s: f64,
}

/// Results of a stream of scheduled datagrams.
#[derive(Clone, Debug)]
pub struct MediaStreamReport {
    /// Number of sent datagrams, including those that the sending socket dropped.
    pub sent: u64,
    /// Datagrams for which the sending socket had no room. They never entered the path.
    pub no_room: u64,
    /// Datagrams that arrived, in the order of their arrival, including copies.
    pub arrivals: Vec<MediaDatagram>,
    /// The clocks from which the delays were computed.
    pub delay: DelayBasis,
    /// Maximum lateness of a datagram when it was sent.
    pub latest: Duration,
    /// Datagrams that reached the far host but were dropped by its socket.
    pub dropped: u32,
    /// ICMP errors about the datagrams.
    pub icmp_errors: IcmpErrors,
    /// Step of the far host's wall clock during the stream. The kernel stamps packets with the time of that clock.
    pub stepped: Option<Duration>,
}

impl MediaStreamReport {
    /// Why the tester limited the stream, if it did: the socket of one end had no room, the far end's clock was
    /// stepped, or a packet was sent more than `bearable` after its scheduled time. Loss on the path is a result, not a
    /// fault.
    pub fn fault(&self, bearable: Duration) -> Option<String> {
        if self.no_room > 0 {
            let packets = counted(self.no_room, "packet", "packets");
            return Some(format!("the sending socket had no room for {packets}: they never left this host"));
        }
        if self.dropped > 0 {
            let packets = counted(self.dropped.into(), "packet", "packets");
            return Some(format!("the receiving socket had no room for {packets} that had reached its host"));
        }
        if let Some(step) = self.stepped {
            return Some(format!("the wall clock of the far end was stepped by {} s", step.as_secs_f64()));
        }
        let late = time(self.latest.as_secs_f64());
        (self.latest > bearable).then(|| format!("packets left up to {late} late: this machine is too busy"))
    }
}

/// Sends scheduled datagrams in the order of time and reads the arrivals. `number_of` returns the index of a received
/// datagram in the schedule, if it is one of them. Fails if `cancel` is set.
pub(super) fn send(
    remote: &mut Remote,
    dscp: u8,
    schedule: &[ScheduledDatagram],
    number_of: impl FnMut(&[u8]) -> Option<u64>,
    cancel: &AtomicBool,
) -> ProbeResult<MediaStreamReport> {
    let lasts = schedule.last().map_or(Duration::ZERO, |last| last.at.since(Instant::ZERO));
    let to = remote.receive(generous(lasts), KEEP)?;
    let local = HostAddress::from(remote.local()?).at(0);
    let socket = ProbeSocket::asking(local, dscp)?;
    let mut sending = MediaSender {
        socket,
        to,
        schedule,
        sent: Vec::with_capacity(schedule.len()),
        no_room: 0,
        icmp_errors: IcmpErrors::default(),
    };
    let moments = schedule.iter().map(|datagram| datagram.at);
    let is_over = || cancel.load(Ordering::Relaxed);
    let (ours, meter) = pacing::keep(&mut sending, moments, RequestedGaps::Schedule, is_over)?;
    if is_over() {
        return Err(ProbeError::Interrupted);
    }
    let ReceivedDatagrams { arrivals, dropped, stepped } = remote.report()?;
    // ICMP errors about the last datagrams have arrived by now, because the report of the far end came later.
    sending.take()?;
    let MediaSender { sent, no_room, icmp_errors, .. } = sending;
    let round_trip = (!remote.has_our_clock()).then(|| remote.round_trip());
    let (arrivals, delay) = matched(&arrivals, &sent, ours.epoch_nanos(), round_trip, number_of);
    let latest = meter.lateness().max().unwrap_or_default();
    Ok(MediaStreamReport {
        sent: sent.len() as u64,
        no_room,
        arrivals,
        delay,
        latest,
        dropped,
        icmp_errors,
        stepped,
    })
}

/// A stream that is being sent.
struct MediaSender<'a> {
    socket: ProbeSocket,
    to: SocketAddr,
    schedule: &'a [ScheduledDatagram],
    /// Time at which each datagram was sent, ns since the start of the schedule.
    sent: Vec<u64>,
    no_room: u64,
    icmp_errors: IcmpErrors,
}

impl PacketReceiver for MediaSender<'_> {
    fn socket(&self) -> &ProbeSocket {
        &self.socket
    }

    /// Reads ICMP errors only. A stream has no answers, and the time of sending is read at the system call.
    fn take(&mut self) -> ProbeResult<bool> {
        let taken = self.socket.stamps_and_errors(|_| {}, &mut self.icmp_errors, |_| true);
        taken.map_err(ProbeError::kernel("the error queue"))?;
        Ok(false)
    }
}

impl PacketSender for MediaSender<'_> {
    fn send(&mut self, clock: &Clock) -> ProbeResult {
        let Some(datagram) = self.schedule.get(self.sent.len()) else { return Ok(()) };
        self.sent.push(clock.now().as_nanos());
        let had_room = match self.socket.offer(self.to, &datagram.bytes) {
            // A datagram that this host cannot route counts as lost, as if another host had discarded it.
            Err(error) if is_refusal(&error) => true,
            given => given.map_err(|error| ProbeError::send(self.to, error))?,
        };
        self.no_room += u64::from(!had_room);
        Ok(())
    }
}

/// Matches arrivals with sent datagrams. With two unrelated clocks, the shortest delay is assumed to be half of
/// `round_trip`.
fn matched(
    arrivals: &[ReceivedDatagram],
    sent: &[u64],
    epoch_ns: u64,
    round_trip: Option<Duration>,
    mut number_of: impl FnMut(&[u8]) -> Option<u64>,
) -> (Vec<MediaDatagram>, DelayBasis) {
    let known = |arrival: &ReceivedDatagram| {
        let number = number_of(&arrival.head)?;
        let sent_ns = *sent.get(usize::try_from(number).ok()?)?;
        let delay_ns = arrival.at_ns.wrapping_sub(epoch_ns).wrapping_sub(sent_ns).cast_signed();
        Some((number, sent_ns as f64 * 1e-9, delay_ns))
    };
    let known: Vec<(u64, f64, i64)> = arrivals.iter().filter_map(known).collect();
    let half_ns = round_trip.map(|round_trip| (round_trip.as_nanos() / 2).cast_signed());
    let shortest = known.iter().map(|(.., delay_ns)| *delay_ns).min().unwrap_or(0);
    let shift = half_ns.map_or(0, |half_ns| shortest.wrapping_sub(half_ns));
    let matched = known.into_iter().map(|(number, sent_s, delay_ns)| MediaDatagram {
        number,
        sent_s,
        delay_s: delay_ns.wrapping_sub(shift) as f64 * 1e-9,
    });
    let delay = half_ns
        .map_or(DelayBasis::OneClock, |half_ns| DelayBasis::Assumed { within_s: half_ns as f64 * 1e-9 });
    (matched.collect(), delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(at_ns: u64, number: u8) -> ReceivedDatagram {
        ReceivedDatagram { at_ns, len: 1, head: vec![number] }
    }

    fn number(head: &[u8]) -> Option<u64> {
        head.first().copied().map(u64::from)
    }

    /// The epoch is 1 s. Three datagrams are sent 0, 10 and 20 ms after it. The first takes 3 ms, the second is lost,
    /// and the third takes 5 ms. Another datagram arrives that was never sent.
    #[test]
    fn delays_by_one_clock() {
        let sent = [0, 10_000_000, 20_000_000];
        let arrivals = [arrival(1_003_000_000, 0), arrival(1_025_000_000, 2), arrival(1_030_000_000, 9)];
        let (arrivals, delay) = matched(&arrivals, &sent, 1_000_000_000, None, number);
        assert_eq!(delay, DelayBasis::OneClock);
        assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), [0, 2]);
        assert!((arrivals[0].delay_s - 0.003).abs() < 1e-12 && (arrivals[1].delay_s - 0.005).abs() < 1e-12);
    }

    /// The far clock has another origin. The shortest delay is assumed to be half of the round-trip time of 8 ms. The
    /// differences between delays do not depend on the origin.
    #[test]
    fn delays_by_two_clocks() {
        for far in [5_000_000_u64, 3_600_000_000_000] {
            let arrivals = [arrival(far + 3_000_000, 0), arrival(far + 25_000_000, 2)];
            let sent = [0, 10_000_000, 20_000_000];
            let (arrivals, delay) =
                matched(&arrivals, &sent, 1_000_000_000, Some(Duration::from_millis(8)), number);
            assert_eq!(delay, DelayBasis::Assumed { within_s: 0.004 });
            assert!(
                (arrivals[0].delay_s - 0.004).abs() < 1e-12 && (arrivals[1].delay_s - 0.006).abs() < 1e-12
            );
        }
    }

    const BEARABLE: Duration = Duration::from_millis(20);

    fn stream() -> MediaStreamReport {
        MediaStreamReport {
            sent: 2,
            no_room: 0,
            arrivals: Vec::new(),
            delay: DelayBasis::OneClock,
            latest: BEARABLE,
            dropped: 0,
            icmp_errors: IcmpErrors::default(),
            stepped: None,
        }
    }

    /// Only a limit of the tester's hosts makes a stream invalid; loss on the path is a result.
    #[test]
    fn what_the_tester_did_makes_a_stream_invalid() {
        assert_eq!(stream().fault(BEARABLE), None);
        let late = BEARABLE + Duration::from_nanos(1);
        for (stream, says) in [
            (MediaStreamReport { no_room: 1, ..stream() }, "the sending socket had no room for 1 packet:"),
            (MediaStreamReport { dropped: 3, ..stream() }, "the receiving socket had no room for 3 packets"),
            (
                MediaStreamReport { stepped: Some(Duration::from_millis(1500)), ..stream() },
                "was stepped by 1.5 s",
            ),
            (MediaStreamReport { latest: late, ..stream() }, "packets left up to 20 ms late"),
        ] {
            let fault = stream.fault(BEARABLE).expect(says);
            assert!(fault.contains(says), "{fault}");
        }
    }
}
