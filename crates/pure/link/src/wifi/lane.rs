//! One station's way to another.

use netrig_core::{
    Backlog, DropReason, Duration, Header, Instant, Lane, Observer, PacketMeta, Rate, Seeds, Waiting, Watch,
};

use super::WifiSettings;
use crate::flight::{Flight, Flying};
use crate::impairments::Losses;

/// A packet that waits at a station, and the lane that it is for.
#[derive(Clone, Debug)]
pub(super) struct Addressed<P> {
    pub(super) lane: Lane,
    pub(super) packet: P,
}

impl<P: PacketMeta> PacketMeta for Addressed<P> {
    fn header(&self) -> &Header {
        self.packet.header()
    }

    fn header_mut(&mut self) -> &mut Header {
        self.packet.header_mut()
    }
}

/// What a medium knows of a lane.
#[derive(Clone, Debug)]
pub(super) struct LaneState<P> {
    /// The station that sends.
    pub(super) from: usize,
    pub(super) rate: Rate,
    pub(super) delay: Duration,
    pub(super) mtu: u64,
    /// Frames that the far end cannot read.
    pub(super) unread: Losses,
    /// Packets lost behind the link layer.
    pub(super) losses: Losses,
    pub(super) outage: Option<Waiting>,
    pub(super) flight: Flight<P>,
    /// Time that its frames have taken, up to `occupied_until`.
    occupied: Duration,
    occupied_until: Instant,
}

impl<P: PacketMeta> LaneState<P> {
    /// The lane that `settings` describe; its random streams are `link/<name>/frame-loss` and `/loss`.
    pub(super) fn new(from: usize, settings: &WifiSettings, seeds: &Seeds, name: &str) -> Self {
        let stream = |what: &str| seeds.stream(&format!("link/{name}/{what}"));
        Self {
            from,
            rate: settings.rate,
            delay: settings.delay,
            mtu: settings.mtu.bytes(),
            unread: Losses::new(settings.frame_loss.as_ref(), &[], stream("frame-loss")),
            losses: Losses::new(settings.loss.as_ref(), &settings.drop, stream("loss")),
            outage: None,
            flight: Flight::new(),
            occupied: Duration::ZERO,
            occupied_until: Instant::ZERO,
        }
    }

    /// Its frame, and the answer if there is one, take the medium from `start` on for so long.
    pub(super) fn occupy(&mut self, start: Instant, air: Duration) {
        self.occupied += air;
        self.occupied_until = start + air;
    }

    /// Time that its frames have taken until `now`.
    pub(super) fn occupied(&self, now: Instant) -> Duration {
        self.occupied.saturating_sub(self.occupied_until.since(now))
    }

    /// The far end passes a packet up at `moment`.
    pub(super) fn deliver(&mut self, moment: Instant, packet: P) {
        let lost = self.losses.next();
        self.flight.push(Flying { at: moment + self.delay, lost, packet });
    }

    /// The near end gives a packet up at `moment`.
    pub(super) fn give_up(&mut self, moment: Instant, packet: P) {
        self.flight.push(Flying { at: moment, lost: Some(DropReason::RetryLimit), packet });
    }
}

/// Tells a lane's observer what happens in the queue of its station, and keeps count of what waits for each lane.
pub(super) struct Desk<'a, W> {
    pub(super) watch: &'a mut W,
    pub(super) backlogs: &'a mut [Backlog],
}

impl<W> Desk<'_, W> {
    /// A packet is about to be given to the queue.
    pub(super) fn arrives<P: PacketMeta>(&mut self, addressed: &Addressed<P>) {
        let backlog = &mut self.backlogs[addressed.lane.0 as usize];
        backlog.packets += 1;
        backlog.bytes += u64::from(addressed.header().ip_len);
    }

    fn leaves<P: PacketMeta>(&mut self, addressed: &Addressed<P>) {
        let backlog = &mut self.backlogs[addressed.lane.0 as usize];
        backlog.packets -= 1;
        backlog.bytes -= u64::from(addressed.header().ip_len);
    }

    /// What waits for a lane, as of now.
    pub(super) fn tell<P>(&mut self, at: Instant, lane: Lane)
    where
        W: Watch<P>,
    {
        let backlog = self.backlogs[lane.0 as usize];
        self.watch.lane(lane).queued(at, backlog);
    }
}

impl<P: PacketMeta, W: Watch<P>> Observer<Addressed<P>> for Desk<'_, W> {
    fn marked(&mut self, at: Instant, addressed: &Addressed<P>) {
        self.watch.lane(addressed.lane).marked(at, &addressed.packet);
    }

    fn served(&mut self, at: Instant, addressed: &Addressed<P>, waited: Duration) {
        self.leaves(addressed);
        self.watch.lane(addressed.lane).served(at, &addressed.packet, waited);
        self.tell(at, addressed.lane);
    }

    fn dropped(&mut self, at: Instant, addressed: &Addressed<P>, why: DropReason) {
        self.leaves(addressed);
        self.watch.lane(addressed.lane).dropped(at, &addressed.packet, why);
        self.tell(at, addressed.lane);
    }
}
