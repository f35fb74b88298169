//! A send queue of datagrams. It sends several datagrams with one system call if separate calls would make them late.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

use netrig_core::{Data, DatagramId, Duration, Instant};
use rustix::net::SendFlags;

use crate::Clock;
use crate::datagram::{DatagramBody, DatagramStamp, PayloadKind, SHORT_LEN, STAMP_LEN, answer_body, body};
use crate::datagram_format::DatagramFormat;
use crate::socket::{LONGEST_DATAGRAM, is_loss, is_segmentation_refused, is_too_long};
use crate::source_report::{RequestedGaps, SourceMeter};
use crate::sys::{MESSAGES, Outgoing, send_many, send_one};

/// Zeros for datagrams without content.
static FILL: [u8; LONGEST_DATAGRAM] = [0; LONGEST_DATAGRAM];

/// Maximum number of datagrams in one message, as in the first kernels with segmentation (`UDP_MAX_SEGMENTS`,
/// include/linux/udp.h).
const SEGMENTS: usize = 64;

/// Maximum queue length, datagrams. While the queue is full, the application is not asked for more datagrams.
const BACKLOG: usize = 4 * SEGMENTS;

/// If this many datagrams wait, the source is far behind its schedule, or its rate is too high for one call per
/// datagram. A call then sends as many datagrams as it can, regardless of their due times and addresses.
const FAR_BEHIND: usize = SEGMENTS;

/// The duration of a call is measured once for this many datagrams.
const COSTED: u64 = 8;

/// A call that takes longer than this was interrupted. Its duration counts as this value.
const LONGEST_COST: Duration = Duration::from_micros(10);

/// Maximum number of send times that wait to be passed to the meter.
const UNMETERED: usize = 1024;

/// Time until the next attempt after the send buffer was full.
const RETRY: Duration = Duration::from_micros(50);

/// The send queue of one end. Datagrams are numbered and stamped when they leave.
pub struct Outbox {
    flow: u32,
    /// Whether content is sent without a stamp.
    bare: bool,
    /// The format of a header that replaces the stamp, if there is one.
    format: Option<Arc<dyn DatagramFormat>>,
    /// The connected peer of the socket.
    peer: Option<SocketAddr>,
    next: u64,
    waiting: VecDeque<WaitingDatagram>,
    source: SourceMeter,
    /// Intended and actual send times that have not been passed to the meter.
    unmetered: VecDeque<(Instant, Instant)>,
    /// The smallest datagram length for which the kernel refused segmentation. From this length on, it is not tried
    /// again.
    uncut: usize,
    /// Number of datagrams that were longer than the path MTU.
    refused: u64,
    /// No datagram is sent after this time.
    closes: Instant,
    /// Number of datagrams that were still in the queue at that time.
    unsent: u64,
    /// Duration of a call that sends one datagram.
    cost: SmoothedCost,
    /// Time between two datagrams that one call sends as separate messages.
    spacing: SmoothedCost,
    retry: Option<Instant>,
    stamps: Vec<[u8; STAMP_LEN]>,
    /// Buffer for a stamp and zeros.
    single: Vec<u8>,
}

/// Smoothed duration of an operation, without interruptions, ns; 0 before the first measurement.
#[derive(Clone, Copy, Debug, Default)]
struct SmoothedCost(u64);

impl SmoothedCost {
    fn took(&mut self, span: Duration) {
        let took = span.min(LONGEST_COST).as_nanos();
        // Short durations have more weight, because longer durations may include interruptions.
        let share = if took < self.0 { 4 } else { 32 };
        self.0 = if self.0 == 0 { took } else { (self.0 * (share - 1) + took) / share };
    }
}

/// What one call sent.
struct SentByCall {
    datagrams: usize,
    /// Number of messages, each with one or more datagrams.
    messages: usize,
}

/// A datagram in the queue.
struct WaitingDatagram {
    to: SocketAddr,
    intended: Instant,
    rest: PayloadKind,
    body: DatagramBody,
}

impl WaitingDatagram {
    fn len(&self) -> usize {
        self.head_len() + self.body.bytes().len()
    }

    /// Length of the stamp, bytes. For a short stamp, the zeros after it are included.
    const fn head_len(&self) -> usize {
        match self.body {
            DatagramBody::Short(len) => len,
            DatagramBody::Fill(_) | DatagramBody::Content(_) => STAMP_LEN,
            DatagramBody::Whole(_) => 0,
        }
    }

    /// The first bytes of the datagram if it leaves at `at`. Only the first [`WaitingDatagram::head_len`] bytes are
    /// sent.
    fn stamp(
        &self,
        flow: u32,
        format: Option<&dyn DatagramFormat>,
        number: u64,
        at: Instant,
    ) -> [u8; STAMP_LEN] {
        if let Some(format) = format {
            let mut head = [0; STAMP_LEN];
            format.write(number, at, &mut head);
            return head;
        }
        let stamp = DatagramStamp { flow, number, sent: at, late: at - self.intended, rest: self.rest };
        if matches!(self.body, DatagramBody::Short(_)) {
            let mut head = [0; STAMP_LEN];
            head[..SHORT_LEN].copy_from_slice(&stamp.encode_short());
            return head;
        }
        stamp.encode()
    }
}

impl Outbox {
    /// Creates the queue of a socket that is connected to `peer`; `None` if it is not connected.
    pub fn new(flow: u32, asked: RequestedGaps, peer: Option<SocketAddr>) -> Self {
        Self {
            flow,
            bare: false,
            format: None,
            peer,
            next: 0,
            waiting: VecDeque::with_capacity(BACKLOG),
            source: SourceMeter::new(asked),
            unmetered: VecDeque::with_capacity(UNMETERED + BACKLOG),
            uncut: usize::MAX,
            refused: 0,
            closes: Instant::NEVER,
            unsent: 0,
            cost: SmoothedCost::default(),
            spacing: SmoothedCost::default(),
            retry: None,
            stamps: Vec::with_capacity(SEGMENTS),
            single: vec![0; LONGEST_DATAGRAM],
        }
    }

    /// Makes the queue send content without a stamp.
    pub fn without_stamps(self) -> Self {
        Self { bare: true, ..self }
    }

    /// Makes the queue send datagrams with the header `format` instead of a stamp.
    pub fn with_format(self, format: Arc<dyn DatagramFormat>) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Closes the queue at the time `closes`, when the receiver stops. Datagrams that are still in the queue are
    /// discarded.
    pub fn closing_at(self, closes: Instant) -> Self {
        Self { closes, ..self }
    }

    /// Whether the queue has room for more datagrams.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < BACKLOG
    }

    /// When to call [`Outbox::flush`] again, if the send buffer was full.
    pub const fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Number of datagrams sent since the start.
    pub const fn sent(&self) -> u64 {
        self.next
    }

    /// Number of datagrams that the kernel refused because they were too long. They are included in [`Outbox::sent`].
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Number of datagrams that were still in the queue when it closed.
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// The meter of the source, with all send times.
    pub fn source(&mut self) -> &SourceMeter {
        self.meter(usize::MAX);
        &self.source
    }

    /// Number of sent datagrams whose send times have not been passed to the meter.
    pub fn unmetered(&self) -> usize {
        self.unmetered.len()
    }

    /// Passes at most `most` send times to the meter. Call this function while no datagram is due.
    pub fn meter(&mut self, most: usize) {
        let count = self.unmetered.len().min(most);
        self.unmetered.drain(..count).for_each(|(intended, at)| self.source.sent(intended, at));
    }

    /// Until when the first datagram of the queue may wait for another datagram, so that both leave with one call.
    /// `None` if the queue is empty.
    ///
    /// Two datagrams that are due within the duration of a call cannot both leave on time. If they are sent with two
    /// calls, the gap between them is the duration of one call. If one call sends them as two messages, the gap is a
    /// little shorter. In one segmented message, the gap is zero. The queue uses the method whose gap is closest to the
    /// scheduled gap.
    pub fn grace(&self) -> Option<Instant> {
        self.waiting.front().map(|first| self.goes_behind(first))
    }

    /// Datagrams that are due before this time leave in one segmented message with `datagram`.
    fn goes_with(&self, datagram: &WaitingDatagram) -> Instant {
        datagram.intended + Duration::from_nanos(self.spacing_ns() / 2)
    }

    /// Datagrams that are due before this time leave with the same call as `datagram`.
    fn goes_behind(&self, datagram: &WaitingDatagram) -> Instant {
        datagram.intended + Duration::from_nanos(self.spacing_ns().midpoint(self.cost.0))
    }

    fn spacing_ns(&self) -> u64 {
        if self.spacing.0 == 0 { self.cost.0 } else { self.spacing.0.min(self.cost.0) }
    }

    fn is_far_behind(&self) -> bool {
        self.waiting.len() >= FAR_BEHIND
    }

    /// Queues a datagram with its intended send time and, if it is an answer, the identifier of the answered datagram.
    /// [`Outbox::flush`] sends it. The error is a message for users.
    pub fn push(
        &mut self,
        intended: Instant,
        to: SocketAddr,
        answers: Option<DatagramId>,
        data: Data,
    ) -> Result<(), String> {
        let size = data.size();
        let (rest, body) = match answers {
            None if self.bare => match data {
                Data::Bytes(bytes) => (PayloadKind::Content, Some(DatagramBody::Whole(bytes))),
                Data::Fill(_) => (PayloadKind::Fill, body(data)),
            },
            Some(answered) => (PayloadKind::Answer, answer_body(answered, size)),
            None if matches!(data, Data::Bytes(_)) => (PayloadKind::Content, body(data)),
            None => (PayloadKind::Fill, body(data)),
        };
        let body =
            body.ok_or_else(|| format!("a datagram of {size} B has no room for its stamp of {SHORT_LEN} B"))?;
        if body.len() + STAMP_LEN as u64 > LONGEST_DATAGRAM as u64 {
            return Err(format!(
                "a datagram of {size} B cannot be sent over UDP, which takes {LONGEST_DATAGRAM} B"
            ));
        }
        self.waiting.push_back(WaitingDatagram { to, intended, rest, body });
        Ok(())
    }

    /// Sends the queued datagrams. Datagrams with the same length, address and due time leave as one message, which the
    /// kernel segments. Even if the source is late, datagrams with different due times leave separately, unless it is
    /// far behind. If the send buffer is full, the datagrams stay in the queue. If the queue has closed, they are
    /// discarded.
    pub fn flush(&mut self, socket: impl AsFd, clock: &Clock) -> io::Result<()> {
        self.retry = None;
        if self.unmetered.len() >= UNMETERED {
            self.meter(UNMETERED);
        }
        while !self.waiting.is_empty() {
            let at = clock.now();
            if at > self.closes {
                self.unsent += self.waiting.len() as u64;
                self.waiting.clear();
                return Ok(());
            }
            let sent = match self.send_front(&socket, at) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.retry = Some(at + RETRY);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // An ICMP message refused an earlier datagram. The kernel reports this once, without sending the new
                // datagram (RFC 1122 section 4.1.3.3).
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                // A datagram without a route counts as sent and lost.
                Err(error) if is_loss(&error) => {
                    SentByCall { datagrams: self.run_of_one_length(0), messages: 0 }
                }
                // The datagram is longer than the known path MTU and must not be fragmented.
                Err(error) if is_too_long(&error) && self.run_of_one_length(0) == 1 => {
                    self.refused += 1;
                    SentByCall { datagrams: 1, messages: 0 }
                }
                Err(error) => {
                    let run = self.run_of_one_length(0);
                    if run == 1 || !is_segmentation_refused(&error) {
                        return Err(error);
                    }
                    self.uncut = self.waiting[0].len();
                    continue;
                }
            };
            match sent {
                SentByCall { datagrams: 1, messages: 1 } if self.next.is_multiple_of(COSTED) => {
                    self.cost.took(clock.now() - at);
                }
                SentByCall { datagrams: 2, messages: 2 } if self.cost.0 > 0 => {
                    self.spacing.took((clock.now() - at) - Duration::from_nanos(self.cost.0));
                }
                _ => {}
            }
            self.next += sent.datagrams as u64;
            let gone = self.waiting.drain(..sent.datagrams);
            self.unmetered.extend(gone.map(|datagram| (datagram.intended, at)));
        }
        Ok(())
    }

    /// Sends the first datagram of the queue and the datagrams that leave with the same call. If the source is far
    /// behind, one call sends as many as it can.
    fn send_front(&mut self, socket: impl AsFd, at: Instant) -> io::Result<SentByCall> {
        let until = match self.waiting.front() {
            Some(front) if !self.is_far_behind() => self.goes_behind(front),
            _ => Instant::NEVER,
        };
        if self.waiting.get(1).is_none_or(|second| second.intended > until) {
            return self.send_single(socket, at).map(|()| SentByCall { datagrams: 1, messages: 1 });
        }
        self.send_runs(socket, at, until)
    }

    /// Sends only the first datagram of the queue, with the fastest system call.
    fn send_single(&mut self, socket: impl AsFd, at: Instant) -> io::Result<()> {
        let Some(front) = self.waiting.front() else { return Ok(()) };
        let stamp = front.stamp(self.flow, self.format.as_deref(), self.next, at);
        match (&front.body, self.name(front)) {
            (DatagramBody::Fill(rest), None) => {
                self.single[..STAMP_LEN].copy_from_slice(&stamp);
                let datagram = &self.single[..STAMP_LEN + *rest as usize];
                Ok(rustix::net::send(socket, datagram, SendFlags::DONTWAIT).map(drop)?)
            }
            (body, to) => {
                let pieces = [IoSlice::new(&stamp[..front.head_len()]), IoSlice::new(body.bytes())];
                send_one(socket, &Outgoing { to, pieces: &pieces, segment: None })
            }
        }
    }

    /// Sends the datagrams that are due by `until`. Each run of datagrams of the same length is one message.
    fn send_runs(&mut self, socket: impl AsFd, at: Instant, until: Instant) -> io::Result<SentByCall> {
        let mut runs = Vec::with_capacity(MESSAGES);
        let mut count = 0;
        while runs.len() < MESSAGES && self.waiting.get(count).is_some_and(|next| next.intended <= until) {
            let run = self.run_of_one_length(count);
            runs.push(run);
            count += run;
        }
        self.stamps.clear();
        let numbered = self.waiting.iter().take(count).zip(self.next..);
        let (flow, format) = (self.flow, self.format.as_deref());
        self.stamps.extend(numbered.map(|(datagram, number)| datagram.stamp(flow, format, number, at)));
        let datagrams = self.waiting.iter().zip(&self.stamps);
        let pieces: Vec<_> = datagrams
            .flat_map(|(datagram, stamp)| {
                [IoSlice::new(&stamp[..datagram.head_len()]), IoSlice::new(datagram.body.bytes())]
            })
            .collect();
        let mut first = 0;
        let messages: Vec<_> = runs
            .iter()
            .map(|run| {
                let (start, front) = (first, &self.waiting[first]);
                first += run;
                // No datagram is longer than `LONGEST_DATAGRAM`.
                let segment = (*run > 1).then_some(front.len() as u16);
                Outgoing { to: self.name(front), pieces: &pieces[2 * start..2 * first], segment }
            })
            .collect();
        match &messages[..] {
            [message] => send_one(socket, message).map(|()| SentByCall { datagrams: count, messages: 1 }),
            several => send_many(socket, several)
                .map(|sent| SentByCall { datagrams: runs[..sent].iter().sum(), messages: sent }),
        }
    }

    /// The destination to pass to the kernel; `None` if it is the connected peer.
    fn name(&self, datagram: &WaitingDatagram) -> Option<SocketAddr> {
        Some(datagram.to).filter(|to| self.peer != Some(*to))
    }

    /// Number of datagrams from index `first` on that leave as one message. They have the same address and the same
    /// length, but the last may be shorter. They were due together, unless the source is far behind.
    fn run_of_one_length(&self, first: usize) -> usize {
        let front = &self.waiting[first];
        let len = front.len();
        if len >= self.uncut {
            return 1;
        }
        let most = (LONGEST_DATAGRAM / len).clamp(1, SEGMENTS);
        let until = if self.is_far_behind() { Instant::NEVER } else { self.goes_with(front) };
        let mut others =
            self.waiting.range(first + 1..).take(most - 1).take_while(|other| other.intended <= until);
        let same = others.clone().take_while(|other| other.to == front.to && other.len() == len).count();
        let shorter = others.nth(same).is_some_and(|other| other.to == front.to && other.len() < len);
        1 + same + usize::from(shorter)
    }
}

impl DatagramBody {
    fn len(&self) -> u64 {
        match self {
            Self::Short(_) => 0,
            Self::Fill(size) => *size,
            Self::Content(bytes) | Self::Whole(bytes) => bytes.len() as u64,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(_) => &[],
            // `push` ensures that no datagram is longer.
            Self::Fill(size) => &FILL[..*size as usize],
            Self::Content(bytes) | Self::Whole(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// Sends datagrams with these due times (ns) and lengths. Returns the number and the length of each received
    /// datagram.
    fn sent(dues_and_lens: &[(u64, u64)], cost_ns: u64) -> (Vec<(u64, usize)>, Outbox) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let to = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut outbox =
            Outbox { cost: SmoothedCost(cost_ns), ..Outbox::new(3, RequestedGaps::Schedule, None) };
        for (due, len) in dues_and_lens {
            outbox.push(Instant::from_nanos(*due), to, None, Data::Fill(*len)).unwrap();
        }
        outbox.flush(&sender, &Clock::starting_in(Duration::ZERO)).unwrap();
        let mut buffer = [1; 2000];
        let mut got = Vec::new();
        while let Ok(len) = receiver.recv(&mut buffer) {
            assert!(buffer[STAMP_LEN..len].iter().all(|byte| *byte == 0));
            got.push((DatagramStamp::decode(&buffer).unwrap().number, len));
        }
        (got, outbox)
    }

    #[test]
    fn datagrams_that_leave_together_arrive_apart() {
        // Two datagrams of one length and a shorter one form a message. The longer datagram is a message of its own.
        let (got, mut outbox) = sent(&[(0, 100), (0, 100), (0, 60), (0, 700)], 1000);
        assert_eq!(got, [(0, 100), (1, 100), (2, 60), (3, 700)]);
        assert_eq!((outbox.sent(), outbox.source().report().sent), (4, 4));
    }

    #[test]
    fn only_what_was_due_together_leaves_together() {
        let (cost, spacing) = (SmoothedCost(3000), SmoothedCost(2000));
        let mut outbox = Outbox { cost, spacing, ..Outbox::new(0, RequestedGaps::Schedule, None) };
        let to = ([127, 0, 0, 1], 9).into();
        for due in [0, 900, 1100, 9000] {
            outbox.push(Instant::from_nanos(due), to, None, Data::Fill(100)).unwrap();
        }
        // 2500 ns is the middle between the gap of one call (2000 ns) and the gap of two calls (3000 ns).
        assert_eq!(outbox.grace(), Some(Instant::from_nanos(2500)));
        // Datagrams that are less than 1000 ns apart, the middle between 0 and 2000 ns, leave in one segmented message.
        assert_eq!([0, 1, 2, 3].map(|first| outbox.run_of_one_length(first)), [2, 2, 1, 1]);
    }

    #[test]
    fn a_datagram_leaves_although_one_before_it_found_nobody() {
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = nobody.local_addr().unwrap();
        drop(nobody);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(to).unwrap();
        let mut outbox = Outbox::new(3, RequestedGaps::Schedule, Some(to));
        let clock = Clock::starting_in(Duration::ZERO);
        outbox.push(Instant::ZERO, to, None, Data::Fill(100)).unwrap();
        outbox.flush(&sender, &clock).unwrap();
        let somebody = UdpSocket::bind(to).unwrap();
        somebody.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        outbox.push(Instant::ZERO, to, None, Data::Fill(100)).unwrap();
        outbox.flush(&sender, &clock).unwrap();
        let mut buffer = [0; 200];
        assert_eq!((somebody.recv(&mut buffer).unwrap(), outbox.sent()), (100, 2));
    }

    #[test]
    fn a_source_that_is_far_behind_takes_what_one_call_can() {
        let dues: Vec<_> = (0..150).map(|n| (n * 1_000_000, 100)).collect();
        let (got, outbox) = sent(&dues, 1000);
        assert_eq!(got, (0..150).map(|n| (n, 100)).collect::<Vec<_>>());
        assert!(outbox.has_room());
    }

    #[test]
    fn nothing_leaves_once_it_has_closed() {
        let somebody = UdpSocket::bind("127.0.0.1:0").unwrap();
        somebody.set_nonblocking(true).unwrap();
        let to = somebody.local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sent_at = |clock: Clock| {
            let mut outbox = Outbox::new(3, RequestedGaps::Schedule, None).closing_at(Instant::ZERO);
            for due in [0, 1000] {
                outbox.push(Instant::from_nanos(due), to, None, Data::Fill(100)).unwrap();
            }
            outbox.flush(&sender, &clock).unwrap();
            (outbox.sent(), outbox.unsent(), outbox.has_room())
        };
        // A clock shows zero before its epoch.
        assert_eq!(sent_at(Clock::starting_in(Duration::from_secs(3600))), (2, 0, true));
        assert_eq!(sent_at(Clock::starting_at(0)), (0, 2, true));
        let came = std::iter::from_fn(|| somebody.recv(&mut [0; 200]).ok()).count();
        assert_eq!(came, 2);
    }

    #[test]
    fn no_call_takes_more_than_udp_carries() {
        let mut outbox = Outbox::new(0, RequestedGaps::Schedule, None);
        for _ in 0..BACKLOG {
            outbox.push(Instant::ZERO, ([127, 0, 0, 1], 9).into(), None, Data::Fill(30_000)).unwrap();
        }
        assert_eq!(outbox.run_of_one_length(0), 2);
        assert!(!outbox.has_room());
        let long = Data::Fill(LONGEST_DATAGRAM as u64 + 1);
        assert!(outbox.push(Instant::ZERO, ([127, 0, 0, 1], 9).into(), None, long).is_err());
    }
}
