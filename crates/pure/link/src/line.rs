//! One direction of a line.

use netrig_core::{
    Backlog, Delivery, Dequeue, DropReason, Duration, InFlight, Instant, Lane, Link, LinkEvent, LinkObserver,
    Observer, PacketMeta, QueueDiscipline, Seeds, Size, Waiting,
};

use crate::flight::{Flight, Flying};
use crate::impairments::{Fate, Impairments};
use crate::pace::LinePace;
use crate::queue::Egress;
use crate::{LineSettings, SettingsError};

/// One direction of a line: a queue discipline, a rate with framing, a delay and impairments. It has one lane,
/// [`Lane::ONLY`].
///
/// If the caller polls late, the line still does everything at the time at which it was due. It draws random numbers in
/// the order in which packets start onto the line. So its behaviour depends only on arrivals and link events, not on
/// when or how often it is polled.
///
/// `Q` is the discipline. [`Egress`] has all disciplines that a file can describe. [`Line::with_queue`] accepts other
/// disciplines.
#[derive(Clone, Debug)]
pub struct Line<P, Q = Egress<P>> {
    queue: Q,
    flight: Flight<P>,
    pace: LinePace,
    delay: Duration,
    /// When the transmission of the current packet ends.
    free_at: Instant,
    /// When to ask the queue for the next packet. [`Instant::NEVER`] while the queue is empty or the line is down.
    ask_at: Instant,
    /// Sending time of all packets that have started, up to `free_at`.
    busy: Duration,
    /// The longest IP packet, bytes.
    mtu: u64,
    outage: Option<Waiting>,
    /// Whether the line has impairments.
    impaired: bool,
    impairments: Box<Impairments>,
    /// The last arrival time among packets that keep their order.
    latest_arrival: Instant,
    /// The `now` of the last call.
    latest: Instant,
}

impl<P: PacketMeta> Line<P> {
    /// The line that `settings` describe. `name` (such as `primary/forward`) names its random streams: `link/<name>/loss`,
    /// `/jitter`, `/reorder`, `/corrupt`, `/duplicate`, `/service`, `/red` and `/flows`.
    ///
    /// # Errors
    /// As [`LineSettings::check`]. Also if a rule or a class still names a node instead of its addresses
    /// ([`LineSettings::resolve`]).
    pub fn new(settings: &LineSettings, seeds: &Seeds, name: &str) -> Result<Self, SettingsError> {
        settings.check()?;
        settings.check_resolved()?;
        Self::with_queue(Egress::new(settings, seeds, name), settings, seeds, name)
    }
}

impl<P, Q> Line<P, Q> {
    /// The line that `settings` describe, with `queue` instead of the queue of the settings.
    ///
    /// # Errors
    /// As [`LineSettings::check`].
    pub fn with_queue(
        queue: Q,
        settings: &LineSettings,
        seeds: &Seeds,
        name: &str,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        let impairments = Box::new(Impairments::new(settings, seeds, name));
        Ok(Self {
            queue,
            flight: Flight::new(),
            pace: LinePace::new(settings, seeds, name),
            delay: settings.delay,
            free_at: Instant::ZERO,
            ask_at: Instant::NEVER,
            busy: Duration::ZERO,
            mtu: settings.mtu.map_or(u64::MAX, Size::bytes),
            outage: None,
            impaired: impairments.any(),
            impairments,
            latest_arrival: Instant::ZERO,
            latest: Instant::ZERO,
        })
    }

    /// The queue.
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Time that the line has spent sending until `now`, which must be the `now` of the last call. Divided by the elapsed time
    /// it is the utilisation.
    pub fn busy(&self, now: Instant) -> Duration {
        self.busy.saturating_sub(self.free_at.since(now))
    }
}

impl<P: PacketMeta + Clone, Q: QueueDiscipline<P>> Line<P, Q> {
    /// Does everything that is due by `now`, except deliveries.
    #[inline]
    pub fn catch_up(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        debug_assert!(now >= self.latest, "time runs backwards: {now} after {}", self.latest);
        self.latest = now;
        if self.ask_at <= now {
            self.serve(now, obs);
        }
    }

    /// Starts all packets that may start by `now`. Not inlined, because most calls start no packet.
    #[inline(never)]
    fn serve(&mut self, now: Instant, obs: &mut impl Observer<P>) {
        // A time of `Instant::NEVER` is never due, even if `now` is `NEVER` too.
        while self.ask_at <= now && self.ask_at < Instant::NEVER {
            self.ask(obs);
        }
    }

    /// Takes the next packet from the queue at `ask_at`.
    #[inline]
    fn ask(&mut self, obs: &mut impl Observer<P>) {
        let start = self.ask_at;
        let next = self.queue.dequeue(start, obs);
        let left = self.queue.backlog();
        obs.queued(start, left);
        self.follow(start, next, left, obs);
    }

    /// Acts on `next`, the result of the queue at `start`. `left` is the backlog after it.
    #[inline]
    fn follow(&mut self, start: Instant, next: Dequeue<P>, left: Backlog, obs: &mut impl Observer<P>) {
        match next {
            Dequeue::Packet(packet, since) => {
                obs.served(start, &packet, start.since(since));
                self.send(start, packet, obs);
                self.ask_at = if left.packets > 0 { self.free_at } else { Instant::NEVER };
            }
            Dequeue::NotBefore(moment) => {
                debug_assert!(moment > start, "a discipline must name a later moment");
                self.ask_at = moment;
            }
            Dequeue::Empty => self.ask_at = Instant::NEVER,
        }
    }

    /// Puts a packet onto the line.
    #[inline]
    fn send(&mut self, start: Instant, packet: P, obs: &mut impl Observer<P>) {
        if start != self.free_at {
            self.pace.rest();
        }
        let takes = self.pace.next(packet.header().ip_len);
        self.busy += takes;
        self.free_at = start + takes;
        if self.impaired {
            self.impair(start, packet, obs);
        } else {
            self.flight.push(Flying { at: self.free_at + self.delay, lost: None, packet });
        }
    }

    /// Applies the impairments to a packet. Their effects are decided when the packet starts.
    #[inline(never)]
    fn impair(&mut self, start: Instant, packet: P, obs: &mut impl Observer<P>) {
        let fate = self.impairments.fate(packet.header().ip_len);
        let (delay, exempt) = self.impairments.delay(self.delay);
        if let Fate::Lost(why) = fate {
            return obs.dropped(start, &packet, why);
        }
        let mut at = self.free_at + delay;
        if self.impairments.queue_up() && !exempt {
            at = at.max(self.latest_arrival);
            self.latest_arrival = at;
        }
        if fate == Fate::Duplicated {
            obs.duplicated(start, &packet);
            self.flight.push(Flying { at, lost: None, packet: packet.clone() });
        }
        self.flight.push(Flying {
            at,
            lost: (fate == Fate::Corrupted).then_some(DropReason::Corrupted),
            packet,
        });
    }

    /// Plans when to take the next packet, after a change of the queue or of the line. `waiting` is the backlog.
    #[inline]
    fn plan(&mut self, now: Instant, waiting: Backlog, obs: &mut impl Observer<P>) {
        let idle = self.outage.is_some() || waiting.packets == 0;
        self.ask_at = if idle { Instant::NEVER } else { self.free_at.max(now) };
        self.catch_up(now, obs);
    }

    fn go_down(&mut self, now: Instant, waiting: Waiting, in_flight: InFlight, obs: &mut impl Observer<P>) {
        self.outage = Some(waiting);
        if waiting == Waiting::Drop {
            self.queue.clear(now, DropReason::LinkDown, obs);
            obs.queued(now, self.queue.backlog());
        }
        if in_flight == InFlight::Lose {
            // Packets that arrive by `now` count as arrived, polled or not.
            self.flight.cut(now, |packet| obs.dropped(now, &packet, DropReason::LinkDown));
            self.latest_arrival = self.latest_arrival.min(now);
            // The packet that was being sent is lost, and its transmission ends here.
            self.busy = self.busy(now);
            self.free_at = self.free_at.min(now);
            self.pace.rest();
        }
    }
}

impl<P: PacketMeta + Clone, Q: QueueDiscipline<P>> Link<P> for Line<P, Q> {
    #[inline]
    fn offer(&mut self, now: Instant, lane: Lane, packet: P, obs: &mut impl LinkObserver<P>) {
        let obs = obs.lane(lane);
        self.catch_up(now, obs);
        obs.offered(now, &packet);
        if u64::from(packet.header().ip_len) > self.mtu {
            return obs.dropped(now, &packet, DropReason::Undeliverable);
        }
        if self.outage == Some(Waiting::Drop) {
            return obs.dropped(now, &packet, DropReason::LinkDown);
        }
        // While the line is up, `ask_at` is `NEVER` only if the queue is empty.
        if self.free_at <= now && self.outage.is_none() && self.ask_at == Instant::NEVER {
            let next = self.queue.pass(now, packet, obs);
            // Either the packet left immediately, or it is the only waiting packet and a shaper holds it.
            let mut left = Backlog::default();
            if let Dequeue::NotBefore(_) = next {
                left = self.queue.backlog();
                obs.queued(now, left);
            }
            return self.follow(now, next, left, obs);
        }
        self.queue.enqueue(now, packet, obs);
        let waiting = self.queue.backlog();
        obs.queued(now, waiting);
        self.plan(now, waiting, obs);
    }

    fn apply(&mut self, now: Instant, lane: Lane, event: LinkEvent, obs: &mut impl LinkObserver<P>) {
        let obs = obs.lane(lane);
        self.catch_up(now, obs);
        match event {
            LinkEvent::Down { queue, in_flight } => self.go_down(now, queue, in_flight, obs),
            LinkEvent::Up => self.outage = None,
            LinkEvent::Rate { bits_per_s } => self.pace.set_rate(bits_per_s),
            LinkEvent::Delay(delay) => self.delay = delay,
            LinkEvent::Loss { probability } => {
                self.impairments.set_loss(probability);
                self.impaired = true;
            }
        }
        self.plan(now, self.queue.backlog(), obs);
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        let moment = match self.flight.next_arrival() {
            None => self.ask_at,
            // The caller need not poll when a waiting packet starts: the line starts it at the right time, and it
            // arrives after this one.
            Some(arrival) if self.impaired && self.impairments.keep_order() => arrival,
            Some(arrival) if self.impaired => {
                arrival.min(self.ask_at + self.impairments.least_delay(self.delay))
            }
            Some(arrival) => arrival.min(self.ask_at + self.delay),
        };
        (moment < Instant::NEVER).then_some(moment)
    }

    #[inline]
    fn poll_deliver(&mut self, now: Instant, obs: &mut impl LinkObserver<P>) -> Option<Delivery<P>> {
        let obs = obs.lane(Lane::ONLY);
        self.catch_up(now, obs);
        loop {
            let Flying { at, lost, packet } = self.flight.pop_by(now)?;
            let Some(why) = lost else {
                obs.delivered(at, &packet);
                return Some(Delivery { at, lane: Lane::ONLY, packet });
            };
            obs.dropped(at, &packet, why);
        }
    }

    fn inside(&self, _lane: Lane) -> usize {
        self.queue.backlog().packets + self.flight.len()
    }
}

impl<P, Q: QueueDiscipline<P>> Line<P, Q> {
    /// The backlog at the time of the last call.
    pub fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    /// When the line will have sent all packets that were offered up to the last call, if no shaper or outage delays
    /// them. The error is at most the framing of a packet, because all waiting packets are assumed to have the same
    /// length.
    pub fn clear_at(&self) -> Instant {
        let Backlog { packets, bytes, .. } = self.backlog();
        self.free_at + self.pace.of_backlog(packets, bytes)
    }
}
