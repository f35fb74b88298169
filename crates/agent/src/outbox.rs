//! Datagrams on their way out: what waits for the socket, how it is put together, and what sending it costs.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use netrig_core::{Data, DatagramId, Duration, Instant};
use rustix::net::SendFlags;

use crate::Clock;
use crate::datagram::{Body, Rest, SHORT_LEN, STAMP_LEN, Stamp, answer_body, body};
use crate::socket::{LONGEST_DATAGRAM, is_loss};
use crate::source_report::{Asked, SourceMeter};
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
pub(crate) struct Outbox {
    flow: u32,
    /// Whether content leaves as it is, without a stamp.
    bare: bool,
    /// To whom the socket is connected.
    peer: Option<SocketAddr>,
    next: u64,
    waiting: VecDeque<Waiting>,
    source: SourceMeter,
    /// When datagrams were to leave and did, of those that the meter has not been told of.
    unmetered: VecDeque<(Instant, Instant)>,
    /// The kernel has refused to cut into datagrams of this length; longer ones it need not be asked for.
    uncut: usize,
    /// What a call with one datagram takes if nothing interrupts it, smoothed, ns.
    cost_ns: u64,
    retry: Option<Instant>,
    stamps: Vec<[u8; STAMP_LEN]>,
    /// A stamp, and the zeros behind it.
    single: Vec<u8>,
}

/// A datagram that is to be sent.
struct Waiting {
    to: SocketAddr,
    intended: Instant,
    rest: Rest,
    body: Body,
}

impl Waiting {
    fn len(&self) -> usize {
        self.head_len() + self.body.bytes().len()
    }

    /// Length of its stamp, and of the zeros behind a short one.
    const fn head_len(&self) -> usize {
        match self.body {
            Body::Short(len) => len,
            Body::Fill(_) | Body::Content(_) => STAMP_LEN,
            Body::Whole(_) => 0,
        }
    }

    /// Its first bytes when it leaves at `at`, as many as [`Waiting::head_len`] says.
    fn stamp(&self, flow: u32, number: u64, at: Instant) -> [u8; STAMP_LEN] {
        let stamp = Stamp { flow, number, sent: at, late: at - self.intended, rest: self.rest };
        if matches!(self.body, Body::Short(_)) {
            let mut head = [0; STAMP_LEN];
            head[..SHORT_LEN].copy_from_slice(&stamp.encode_short());
            return head;
        }
        stamp.encode()
    }
}

impl Outbox {
    /// For a socket that is connected to `peer`, or to none.
    pub fn new(flow: u32, asked: Asked, peer: Option<SocketAddr>) -> Self {
        Self {
            flow,
            bare: false,
            peer,
            next: 0,
            waiting: VecDeque::with_capacity(BACKLOG),
            source: SourceMeter::new(asked),
            unmetered: VecDeque::with_capacity(UNMETERED + BACKLOG),
            uncut: usize::MAX,
            cost_ns: 0,
            retry: None,
            stamps: Vec::with_capacity(SEGMENTS),
            single: vec![0; LONGEST_DATAGRAM],
        }
    }

    /// The same for datagrams whose content is all of them.
    pub fn without_stamps(self) -> Self {
        Self { bare: true, ..self }
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
    /// Two that are due within less than a call takes cannot leave as they should: apart the second is late by up to a
    /// whole call, together the first is by what lies between them. Half a call is where both are the same.
    pub fn grace(&self) -> Option<Instant> {
        self.waiting.front().map(|first| self.goes_with(first))
    }

    /// Until when what is due leaves together with `datagram`.
    fn goes_with(&self, datagram: &Waiting) -> Instant {
        datagram.intended + Duration::from_nanos(self.cost_ns / 2)
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
                Data::Bytes(bytes) => (Rest::Content, Some(Body::Whole(bytes))),
                Data::Fill(_) => (Rest::Fill, body(data)),
            },
            Some(answered) => (Rest::Answer, answer_body(answered, size)),
            None if matches!(data, Data::Bytes(_)) => (Rest::Content, body(data)),
            None => (Rest::Fill, body(data)),
        };
        let body =
            body.ok_or_else(|| format!("a datagram of {size} B has no room for its stamp of {SHORT_LEN} B"))?;
        if body.len() + STAMP_LEN as u64 > LONGEST_DATAGRAM as u64 {
            return Err(format!(
                "a datagram of {size} B cannot be sent over UDP, which takes {LONGEST_DATAGRAM} B"
            ));
        }
        self.waiting.push_back(Waiting { to, intended, rest, body });
        Ok(())
    }

    /// Sends what waits: datagrams of one length to one address that were due together leave with one call, and the kernel
    /// cuts them; a source that is late catches up without putting together what was apart. What the socket has no room for
    /// goes on waiting.
    pub fn flush(&mut self, socket: impl AsFd, clock: &Clock) -> io::Result<()> {
        self.retry = None;
        if self.unmetered.len() >= UNMETERED {
            self.meter(UNMETERED);
        }
        while !self.waiting.is_empty() {
            let at = clock.now();
            let sent = match self.send_front(&socket, at) {
                Ok(sent) => sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.retry = Some(at + RETRY);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // What has no way is lost, as on any network; it was sent.
                Err(error) if is_loss(&error) => self.run_of_one_length(0),
                Err(error) => {
                    let run = self.run_of_one_length(0);
                    if run == 1 || !is_refusal_to_cut(&error) {
                        return Err(error);
                    }
                    self.uncut = self.waiting[0].len();
                    continue;
                }
            };
            if sent == 1 && self.next.is_multiple_of(COSTED) {
                let took = (clock.now() - at).min(LONGEST_COST).as_nanos();
                // What is quick counts more than what is slow, which was interrupted.
                let share = if took < self.cost_ns { 4 } else { 32 };
                self.cost_ns =
                    if self.cost_ns == 0 { took } else { (self.cost_ns * (share - 1) + took) / share };
            }
            self.next += sent as u64;
            self.unmetered.extend(self.waiting.drain(..sent).map(|datagram| (datagram.intended, at)));
        }
        Ok(())
    }

    /// Sends the first of what waits, or more where the source is far behind; how many datagrams the kernel took.
    fn send_front(&mut self, socket: impl AsFd, at: Instant) -> io::Result<usize> {
        let most = if self.is_far_behind() { MESSAGES } else { 1 };
        if most == 1 && self.run_of_one_length(0) == 1 {
            return self.send_single(socket, at).map(|()| 1);
        }
        self.send_runs(socket, at, most)
    }

    /// Sends the first of what waits by itself, in the way that takes the kernel the least time.
    fn send_single(&mut self, socket: impl AsFd, at: Instant) -> io::Result<()> {
        let Some(front) = self.waiting.front() else { return Ok(()) };
        let stamp = front.stamp(self.flow, self.next, at);
        match (&front.body, self.name(front)) {
            (Body::Fill(rest), None) => {
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

    /// Sends at most so many runs of datagrams of one length; how many datagrams the kernel took.
    fn send_runs(&mut self, socket: impl AsFd, at: Instant, most: usize) -> io::Result<usize> {
        let mut runs = Vec::with_capacity(most);
        let mut count = 0;
        while runs.len() < most && count < self.waiting.len() {
            let run = self.run_of_one_length(count);
            runs.push(run);
            count += run;
        }
        self.stamps.clear();
        let numbered = self.waiting.iter().take(count).zip(self.next..);
        self.stamps.extend(numbered.map(|(datagram, number)| datagram.stamp(self.flow, number, at)));
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
            [message] => send_one(socket, message).map(|()| count),
            several => send_many(socket, several).map(|sent| runs[..sent].iter().sum()),
        }
    }

    /// The address that the kernel has to be told for a datagram.
    fn name(&self, datagram: &Waiting) -> Option<SocketAddr> {
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

impl Body {
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

/// Whether an error can say that the kernel does not cut into datagrams: of a length that needs fragments (EINVAL,
/// EMSGSIZE), or over an interface that leaves checksums to us (EIO).
fn is_refusal_to_cut(error: &io::Error) -> bool {
    const REFUSALS: [i32; 4] = [libc::EINVAL, libc::EMSGSIZE, libc::EIO, libc::EOPNOTSUPP];
    error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code))
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
        let mut outbox = Outbox { cost_ns, ..Outbox::new(3, Asked::Schedule, None) };
        for (due, len) in dues_and_lens {
            outbox.push(Instant::from_nanos(*due), to, None, Data::Fill(*len)).unwrap();
        }
        outbox.flush(&sender, &Clock::starting_in(Duration::ZERO)).unwrap();
        let mut buffer = [1; 2000];
        let mut got = Vec::new();
        while let Ok(len) = receiver.recv(&mut buffer) {
            assert!(buffer[STAMP_LEN..len].iter().all(|byte| *byte == 0));
            got.push((Stamp::decode(&buffer).unwrap().number, len));
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
        let mut outbox = Outbox { cost_ns: 3000, ..Outbox::new(0, Asked::Schedule, None) };
        let to = ([127, 0, 0, 1], 9).into();
        for due in [0, 1400, 1600, 9000] {
            outbox.push(Instant::from_nanos(due), to, None, Data::Fill(100)).unwrap();
        }
        // Half of what a call takes, 1500 ns, is how long the first waits for others.
        assert_eq!(outbox.grace(), Some(Instant::from_nanos(1500)));
        assert_eq!([0, 1, 2, 3].map(|first| outbox.run_of_one_length(first)), [2, 2, 1, 1]);
    }

    #[test]
    fn a_source_that_is_far_behind_takes_what_one_call_can() {
        let dues: Vec<_> = (0..150).map(|n| (n * 1_000_000, 100)).collect();
        let (got, outbox) = sent(&dues, 1000);
        assert_eq!(got, (0..150).map(|n| (n, 100)).collect::<Vec<_>>());
        assert!(outbox.has_room());
    }

    #[test]
    fn no_call_takes_more_than_udp_carries() {
        let mut outbox = Outbox::new(0, Asked::Schedule, None);
        for _ in 0..BACKLOG {
            outbox.push(Instant::ZERO, ([127, 0, 0, 1], 9).into(), None, Data::Fill(30_000)).unwrap();
        }
        assert_eq!(outbox.run_of_one_length(0), 2);
        assert!(!outbox.has_room());
        let long = Data::Fill(LONGEST_DATAGRAM as u64 + 1);
        assert!(outbox.push(Instant::ZERO, ([127, 0, 0, 1], 9).into(), None, long).is_err());
    }
}
