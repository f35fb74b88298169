//! Datagrams on their way out: what waits for the socket, how it is put together, and what sending it costs.

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

/// Datagrams that one call sends at most, as the kernel has cut since it can (`UDP_MAX_SEGMENTS`, include/linux/udp.h).
const SEGMENTS: usize = 64;

/// Datagrams that wait for the socket; while there are so many, the application is not asked for more.
const BACKLOG: usize = 4 * SEGMENTS;

/// With so many datagrams waiting the source is far behind, or its rate beyond what one call for each can do: then a call
/// takes what it can, whenever it was due and to whatever address.
const FAR_BEHIND: usize = SEGMENTS;

/// What a call costs is asked of every so many.
const COSTED: u64 = 8;

/// A call that takes longer was interrupted by something else.
const LONGEST_COST: Duration = Duration::from_micros(10);

/// Send times that are kept for a quieter moment at most.
const UNMETERED: usize = 1024;

/// How long after the socket had no room it is tried again.
const RETRY: Duration = Duration::from_micros(50);

/// Datagrams of one end that are to be sent, numbered and stamped as they leave.
pub struct Outbox {
    flow: u32,
    /// Whether content leaves as it is, without a stamp.
    bare: bool,
    /// What stands at the beginning in the place of a stamp.
    format: Option<Arc<dyn DatagramFormat>>,
    /// To whom the socket is connected.
    peer: Option<SocketAddr>,
    next: u64,
    waiting: VecDeque<WaitingDatagram>,
    source: SourceMeter,
    /// When datagrams were to leave and did, of those that the meter has not been told of.
    unmetered: VecDeque<(Instant, Instant)>,
    /// The kernel has refused to cut into datagrams of this length; longer ones it need not be asked for.
    uncut: usize,
    /// Datagrams that were too long to leave.
    refused: u64,
    /// After that nothing leaves.
    closes: Instant,
    /// Datagrams that were due and had not left by then.
    unsent: u64,
    /// What a call with one datagram takes if nothing interrupts it, ns.
    cost: SmoothedCost,
    /// How long after the one before it the next datagram of one call leaves, if each goes by itself, ns.
    spacing: SmoothedCost,
    retry: Option<Instant>,
    stamps: Vec<[u8; STAMP_LEN]>,
    /// A stamp, and the zeros behind it.
    single: Vec<u8>,
}

/// What something takes if nothing interrupts it, smoothed, ns; 0 before it was measured.
#[derive(Clone, Copy, Debug, Default)]
struct SmoothedCost(u64);

impl SmoothedCost {
    fn took(&mut self, span: Duration) {
        let took = span.min(LONGEST_COST).as_nanos();
        // What is quick counts more than what is slow, which was interrupted.
        let share = if took < self.0 { 4 } else { 32 };
        self.0 = if self.0 == 0 { took } else { (self.0 * (share - 1) + took) / share };
    }
}

/// What one call has sent.
struct SentByCall {
    datagrams: usize,
    /// That the kernel took one by one.
    messages: usize,
}

/// A datagram that is to be sent.
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

    /// Length of its stamp, and of the zeros behind a short one.
    const fn head_len(&self) -> usize {
        match self.body {
            DatagramBody::Short(len) => len,
            DatagramBody::Fill(_) | DatagramBody::Content(_) => STAMP_LEN,
            DatagramBody::Whole(_) => 0,
        }
    }

    /// Its first bytes when it leaves at `at`, as many as [`WaitingDatagram::head_len`] says.
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
    /// For a socket that is connected to `peer`, or to none.
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

    /// The same for datagrams whose content is all of them.
    pub fn without_stamps(self) -> Self {
        Self { bare: true, ..self }
    }

    /// The same for datagrams that begin in another format.
    pub fn with_format(self, format: Arc<dyn DatagramFormat>) -> Self {
        Self { format: Some(format), ..self }
    }

    /// The same that sends nothing after `closes`, when nobody is there to receive it.
    pub fn closing_at(self, closes: Instant) -> Self {
        Self { closes, ..self }
    }

    /// Whether more datagrams may be given.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < BACKLOG
    }

    /// When to try again, if the socket had no room.
    pub const fn retry(&self) -> Option<Instant> {
        self.retry
    }

    /// Datagrams sent since the start.
    pub const fn sent(&self) -> u64 {
        self.next
    }

    /// Those of them that were too long to leave.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Datagrams that were due, and had not left when it closed.
    pub const fn unsent(&self) -> u64 {
        self.unsent
    }

    /// How well the source kept to what was asked.
    pub fn source(&mut self) -> &SourceMeter {
        self.meter(usize::MAX);
        &self.source
    }

    /// Datagrams that were sent and that the meter has not been told of.
    pub fn unmetered(&self) -> usize {
        self.unmetered.len()
    }

    /// Tells the meter of what was sent, at most so many: work that is best done while nothing is due.
    pub fn meter(&mut self, most: usize) {
        let count = self.unmetered.len().min(most);
        self.unmetered.drain(..count).for_each(|(intended, at)| self.source.sent(intended, at));
    }

    /// Until when the datagram that waits alone may wait for another, so that both leave with one call.
    ///
    /// Two that are due within less than a call takes cannot leave as they should. With two calls they are apart by what a
    /// call takes, with one by a little less, and cut from one message by nothing: they leave in the way that is nearest to
    /// what lies between them.
    pub fn grace(&self) -> Option<Instant> {
        self.waiting.front().map(|first| self.goes_behind(first))
    }

    /// Until when what is due leaves cut from one message with `datagram`.
    fn goes_with(&self, datagram: &WaitingDatagram) -> Instant {
        datagram.intended + Duration::from_nanos(self.spacing_ns() / 2)
    }

    /// Until when what is due leaves by the same call as `datagram`.
    fn goes_behind(&self, datagram: &WaitingDatagram) -> Instant {
        datagram.intended + Duration::from_nanos(self.spacing_ns().midpoint(self.cost.0))
    }

    fn spacing_ns(&self) -> u64 {
        if self.spacing.0 == 0 { self.cost.0 } else { self.spacing.0.min(self.cost.0) }
    }

    fn is_far_behind(&self) -> bool {
        self.waiting.len() >= FAR_BEHIND
    }

    /// Takes a datagram that is meant for `intended`, and what it answers; [`Outbox::flush`] sends it. An error says what
    /// is wrong with it.
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

    /// Sends what waits: datagrams of one length to one address that were due together leave with one call, and the kernel
    /// cuts them; a source that is late catches up without putting together what was apart. What the socket has no room for
    /// goes on waiting, and what waits when it has closed is left unsent.
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
                // An earlier datagram found nobody there, which the kernel tells once and sends nothing (ICMP, RFC 1122
                // section 4.1.3.3).
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                // What has no way is lost, as on any network; it was sent.
                Err(error) if is_loss(&error) => {
                    SentByCall { datagrams: self.run_of_one_length(0), messages: 0 }
                }
                // One that may not be cut, and is too long for what is known of its path.
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

    /// Sends the first of what waits and what leaves by the same call, or more where the source is far behind.
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

    /// Sends the first of what waits by itself, in the way that takes the kernel the least time.
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

    /// Sends the datagrams that were due until then, each run of one length as one message.
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

    /// The address that the kernel has to be told for a datagram.
    fn name(&self, datagram: &WaitingDatagram) -> Option<SocketAddr> {
        Some(datagram.to).filter(|to| self.peer != Some(*to))
    }

    /// How many datagrams from place `first` on leave with one call: to one address and of one length, but the last, which
    /// may be shorter, and due together unless the source is far behind.
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
            // `push` has made sure that no datagram is longer.
            Self::Fill(size) => &FILL[..*size as usize],
            Self::Content(bytes) | Self::Whole(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    /// What a socket gets of datagrams that were due so many nanoseconds after the start, each with its length: the number
    /// in its stamp, and its length.
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
        // Two of one length and a shorter one are one message, the longer one another.
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
        // Between 2000 ns by one call and 3000 by two: until there the first waits for others.
        assert_eq!(outbox.grace(), Some(Instant::from_nanos(2500)));
        // Between nothing and 2000 ns: until there they are cut from one message.
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
        // Before its epoch a clock stands at zero.
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
