//! Datagrams to a receiver, each at its moment, and what came of them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant};

use super::ProbeError;
use super::icmp_error::IcmpErrors;
use super::pacing::{self, PacketReceiver, PacketSender};
use super::receiver::{ReceivedDatagram, ReceivedDatagrams, Remote, generous};
use super::socket::{ProbeSocket, is_refusal};
use netrig_host::{Asked, Clock, HostAddress};

/// Bytes of a datagram that the receiver keeps: all of any that fits an Ethernet frame.
const KEEP: u16 = 1_500;

/// A datagram and its moment.
#[derive(Clone, Debug)]
pub(super) struct ScheduledDatagram {
    pub at: Instant,
    pub bytes: Vec<u8>,
}

/// What delays are measured by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DelayBasis {
    /// One clock at both ends.
    OneClock,
    /// Two clocks of which nothing is known: the shortest delay is taken for half the round trip, so that all delays are
    /// wrong by the same amount, at most this, s.
    Assumed {
        /// Half the round trip over the control connection, s.
        within_s: f64,
    },
}

/// A datagram that arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaDatagram {
    /// Its place among all that were sent, from 0.
    pub number: u64,
    /// When it was sent, s since the start.
    pub sent_s: f64,
    /// Its delay, s.
    pub delay_s: f64,
}

/// What became of a stream.
#[derive(Clone, Debug)]
pub struct MediaStreamReport {
    /// Datagrams that were sent, or should have been.
    pub sent: u64,
    /// Those of them for which this host's socket had no room: the path never saw them.
    pub no_room: u64,
    /// Those that arrived, in the order of their arrival, copies included.
    pub arrivals: Vec<MediaDatagram>,
    /// What their delays are measured by.
    pub delay: DelayBasis,
    /// How late the datagrams left at most.
    pub latest: Duration,
    /// Datagrams that reached the far host and that its socket had no room for.
    pub dropped: u32,
    /// What was said of the datagrams by ICMP.
    pub icmp_errors: IcmpErrors,
    /// By how much the far host's wall clock, of which the kernel's stamps are, was stepped meanwhile.
    pub stepped: Option<Duration>,
}

/// Sends what is scheduled, in the order of time, and asks what came. `number_of` tells the place in the schedule of what
/// arrived, if it is one of ours. It is given up when `cancel` is set.
pub(super) fn send(
    remote: &mut Remote,
    dscp: u8,
    schedule: &[ScheduledDatagram],
    number_of: impl FnMut(&[u8]) -> Option<u64>,
    cancel: &AtomicBool,
) -> Result<MediaStreamReport, ProbeError> {
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
    let (ours, meter) = pacing::keep(&mut sending, moments, Asked::Schedule, is_over)?;
    if is_over() {
        return Err(ProbeError::Interrupted);
    }
    let ReceivedDatagrams { arrivals, dropped, stepped } = remote.report()?;
    // What was said of the last datagrams came before the far end's report.
    sending.take()?;
    let MediaSender { sent, no_room, icmp_errors, .. } = sending;
    let round_trip = (!remote.has_our_clock()).then(|| remote.round_trip());
    let (arrivals, delay) = matched(&arrivals, &sent, ours.epoch_nanos(), round_trip, number_of);
    let latest = meter.lateness().max();
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

/// A stream under way.
struct MediaSender<'a> {
    socket: ProbeSocket,
    to: SocketAddr,
    schedule: &'a [ScheduledDatagram],
    /// When each datagram was sent, ns since the schedule's start.
    sent: Vec<u64>,
    no_room: u64,
    icmp_errors: IcmpErrors,
}

impl PacketReceiver for MediaSender<'_> {
    fn socket(&self) -> &ProbeSocket {
        &self.socket
    }

    /// Nobody answers, and when a datagram was given to the kernel is when it was sent.
    fn take(&mut self) -> Result<bool, ProbeError> {
        let taken = self.socket.stamps_and_errors(|_| {}, &mut self.icmp_errors, |_| true);
        taken.map_err(ProbeError::kernel("the error queue"))?;
        Ok(false)
    }
}

impl PacketSender for MediaSender<'_> {
    fn send(&mut self, clock: &Clock) -> Result<(), ProbeError> {
        let Some(datagram) = self.schedule.get(self.sent.len()) else { return Ok(()) };
        self.sent.push(clock.now().as_nanos());
        let had_room = match self.socket.offer(self.to, &datagram.bytes) {
            // One that finds no way is lost as on any other host.
            Err(error) if is_refusal(&error) => true,
            given => given.map_err(|error| ProbeError::send(self.to, error))?,
        };
        self.no_room += u64::from(!had_room);
        Ok(())
    }
}

/// Matches what arrived with what was sent. Of a clock that is not ours, the shortest delay is taken for half of
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

    /// Three sent at 0, 10, 20 ms after an epoch of 1 s; the second is lost, the third takes 5 ms, the first 3; one that was
    /// never sent comes too.
    #[test]
    fn delays_by_one_clock() {
        let sent = [0, 10_000_000, 20_000_000];
        let arrivals = [arrival(1_003_000_000, 0), arrival(1_025_000_000, 2), arrival(1_030_000_000, 9)];
        let (arrivals, delay) = matched(&arrivals, &sent, 1_000_000_000, None, number);
        assert_eq!(delay, DelayBasis::OneClock);
        assert_eq!(arrivals.iter().map(|arrival| arrival.number).collect::<Vec<_>>(), [0, 2]);
        assert!((arrivals[0].delay_s - 0.003).abs() < 1e-12 && (arrivals[1].delay_s - 0.005).abs() < 1e-12);
    }

    /// A far clock that was started an hour later, or earlier: the shortest delay is half of 8 ms, differences stay.
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
}
