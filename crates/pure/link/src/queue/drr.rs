//! Deficit round robin: M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round robin", SIGCOMM 1995;
//! called "the paper" here.

use std::collections::VecDeque;

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bands::Bands;
use super::class::{self, ClassContext, PerClass};
use crate::error::ensure;
use crate::{Framing, SettingsError};

/// Deficit round robin among the line's classes. The quantum of a class is proportional to its share of the line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drr {
    /// Largest number of waiting packets in each class without a `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// Largest number of waiting bytes of IP packets in each class without a `queue` of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Size>,
    /// The quantum of the class with the smallest share, framing included, above zero. 1500 B if not given. If it is below the
    /// longest packet, some rounds send nothing.
    #[serde(default = "default_quantum")]
    pub quantum: Size,
}

fn default_quantum() -> Size {
    Size::from_bytes(1500)
}

impl Drr {
    /// The limits of each class.
    pub(super) fn room(&self) -> PerClass {
        PerClass { packets: self.packets, bytes: self.bytes }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.room().check()?;
        let quantum = self.quantum.bytes();
        ensure((1..=1 << 30).contains(&quantum), "quantum", "must be above zero and at most 1 GiB")
    }
}

/// A queue with deficit round robin. The names are those of the paper.
#[derive(Clone, Debug)]
pub struct DrrQueue<P>(Box<Rounds<P>>);

#[derive(Clone, Debug)]
struct Rounds<P> {
    /// The note about a packet is its length on the line.
    bands: Bands<P, u64>,
    classes: Vec<DrrClass>,
    /// Backlogged classes. The first one is served now.
    active: VecDeque<usize>,
    framing: Framing,
}

#[derive(Clone, Debug)]
struct DrrClass {
    quantum: u64,
    /// DeficitCounter of the paper: bytes that the class may still send in this round.
    deficit: u64,
    /// Whether the class has received its quantum for this turn.
    granted: bool,
    active: bool,
}

impl<P: PacketMeta> DrrQueue<P> {
    /// Empty queues for the classes of this line.
    pub fn new(settings: &Drr, context: &ClassContext<'_>) -> Self {
        let shares = class::shares(context.classes(), context.line().rate(), |_| false);
        let least = shares.iter().copied().min().unwrap_or(1).max(1);
        let turn = |share: u64| {
            let quantum = u128::from(settings.quantum.bytes()) * u128::from(share) / u128::from(least);
            let quantum = u64::try_from(quantum).unwrap_or(u64::MAX >> 1).max(1);
            DrrClass { quantum, deficit: 0, granted: false, active: false }
        };
        Self(Box::new(Rounds {
            bands: Bands::new(&settings.room(), context),
            classes: shares.into_iter().map(turn).collect(),
            active: VecDeque::new(),
            framing: context.line().framing(),
        }))
    }
}

impl<P: PacketMeta> Rounds<P> {
    /// Ends the turn of a class. The class keeps its deficit counter unless its queue is empty.
    fn end_turn(&mut self, class: usize) {
        self.active.pop_front();
        let turn = &mut self.classes[class];
        turn.granted = false;
        if self.bands.is_empty(class) {
            turn.active = false;
            turn.deficit = 0;
        } else {
            self.active.push_back(class);
        }
    }

    /// The next packet of a class, if its deficit counter is large enough.
    fn of_class(&mut self, class: usize, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let turn = &mut self.classes[class];
        if !turn.granted {
            turn.granted = true;
            turn.deficit = turn.deficit.saturating_add(turn.quantum);
        }
        if self.bands.first(class).is_some_and(|length| *length > turn.deficit) {
            return Dequeue::Empty;
        }
        let next = self.bands.pop(class, now, obs);
        if let Dequeue::Packet(packet, _) = &next {
            let length = self.framing.line_bytes(packet.header().ip_len);
            let turn = &mut self.classes[class];
            // A queue that drops at its head may return a longer packet than the one whose length was checked.
            turn.deficit = turn.deficit.saturating_sub(length);
        }
        next
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for DrrQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let rounds = &mut *self.0;
        let class = rounds.bands.class_of(&packet);
        let length = rounds.framing.line_bytes(packet.header().ip_len);
        let waits = rounds.bands.push(class, now, packet, obs, || length);
        if waits && !rounds.classes[class].active {
            rounds.classes[class].active = true;
            rounds.active.push_back(class);
        }
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let rounds = &mut *self.0;
        let (mut soonest, mut held) = (Instant::NEVER, 0);
        while let Some(class) = rounds.active.front().copied() {
            match rounds.of_class(class, now, obs) {
                Dequeue::Packet(packet, since) => {
                    if rounds.bands.is_empty(class) {
                        rounds.end_turn(class);
                    }
                    return Dequeue::Packet(packet, since);
                }
                Dequeue::Empty => {
                    rounds.end_turn(class);
                    held = 0;
                }
                Dequeue::NotBefore(moment) => {
                    // A shaper holds the packet. The class keeps its deficit counter and gets no further quantum until
                    // the packet is released.
                    rounds.active.rotate_left(1);
                    soonest = soonest.min(moment);
                    held += 1;
                    if held == rounds.active.len() {
                        return Dequeue::NotBefore(soonest);
                    }
                }
            }
        }
        Dequeue::Empty
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        self.0.bands.clear(now, why, obs);
        while let Some(class) = self.0.active.front().copied() {
            self.0.end_turn(class);
        }
    }

    fn backlog(&self) -> Backlog {
        self.0.bands.backlog()
    }
}
