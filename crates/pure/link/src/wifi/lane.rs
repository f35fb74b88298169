//! A lane: the direction from one station to another.

use netrig_core::{
    Backlog, DropReason, Duration, Header, Instant, Lane, LinkObserver, Observer, PacketMeta, Rate, Seeds,
    Waiting,
};

use super::WifiSettings;
use crate::flight::{Flight, Flying};
use crate::impairments::Losses;

/// A packet that waits at a station, and its lane.
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

/// The state of a lane.
#[derive(Clone, Debug)]
pub(super) struct LaneState<P> {
    /// The sending station.
    pub(super) from: usize,
    pub(super) rate: Rate,
    pub(super) delay: Duration,
    pub(super) mtu: u64,
    /// The loss process of frames that the far end does not receive.
    pub(super) unread: Losses,
    /// The loss process of packets that the link layer has delivered.
    pub(super) losses: Losses,
    pub(super) outage: Option<Waiting>,
    pub(super) flight: Flight<P>,
    /// Airtime of the lane's frames, up to `occupied_until`.
    occupied: Duration,
    occupied_until: Instant,
}

impl<P: PacketMeta> LaneState<P> {
    /// The lane that `settings` describe. Its random streams are `link/<name>/frame-loss` and `/loss`.
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

    /// A frame of the lane, with its acknowledgement if there is one, occupies the medium from `start` for `air`.
    pub(super) fn occupy(&mut self, start: Instant, air: Duration) {
        self.occupied += air;
        self.occupied_until = start + air;
    }

    /// Airtime of the lane's frames until `now`.
    pub(super) fn occupied(&self, now: Instant) -> Duration {
        self.occupied.saturating_sub(self.occupied_until.since(now))
    }

    /// The far end passes a packet to the higher layer at `moment`.
    pub(super) fn deliver(&mut self, moment: Instant, packet: P) {
        let lost = self.losses.next();
        self.flight.push(Flying { at: moment + self.delay, lost, packet });
    }

    /// The near end discards a packet at `moment`, at the retry limit.
    pub(super) fn give_up(&mut self, moment: Instant, packet: P) {
        self.flight.push(Flying { at: moment, lost: Some(DropReason::RetryLimit), packet });
    }
}

/// Passes the events of a station's queue to the observers of the lanes, and counts the backlog of each lane.
pub(super) struct LaneObserver<'a, W> {
    pub(super) watch: &'a mut W,
    pub(super) backlogs: &'a mut [Backlog],
}

impl<W> LaneObserver<'_, W> {
    /// Counts a packet that is about to enter the queue.
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

    /// Passes the backlog of a lane to its observer.
    pub(super) fn report_backlog<P>(&mut self, at: Instant, lane: Lane)
    where
        W: LinkObserver<P>,
    {
        let backlog = self.backlogs[lane.0 as usize];
        self.watch.lane(lane).queued(at, backlog);
    }
}

impl<P: PacketMeta, W: LinkObserver<P>> Observer<Addressed<P>> for LaneObserver<'_, W> {
    fn marked(&mut self, at: Instant, addressed: &Addressed<P>) {
        self.watch.lane(addressed.lane).marked(at, &addressed.packet);
    }

    fn served(&mut self, at: Instant, addressed: &Addressed<P>, waited: Duration) {
        self.leaves(addressed);
        self.watch.lane(addressed.lane).served(at, &addressed.packet, waited);
        self.report_backlog(at, addressed.lane);
    }

    fn dropped(&mut self, at: Instant, addressed: &Addressed<P>, why: DropReason) {
        self.leaves(addressed);
        self.watch.lane(addressed.lane).dropped(at, &addressed.packet, why);
        self.report_backlog(at, addressed.lane);
    }
}
