//! A shaper: packets out of profile wait instead of being dropped (RFC 2475 section 2.3.3.3).

use netrig_core::{Backlog, Dequeue, DropReason, Instant, Observer, PacketMeta, QueueDiscipline, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::class::ClassContext;
use super::context::QueueContext;
use super::discipline::{Discipline, Queue};
use crate::conditioning::{Layer, TokenBucket};
use crate::error::ensure;
use crate::{Framing, SettingsError};

/// A shaper: a token bucket behind a queue limits the rate at which packets leave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shaped {
    /// The long-run rate, above zero.
    pub rate: Rate,
    /// The burst that may leave at once after a pause, above zero and at most 2 GB. A longer packet is dropped.
    pub burst: Size,
    /// Which length of a packet is counted. The IP packet if not given.
    #[serde(default, skip_serializing_if = "Layer::is_ip")]
    pub layer: Layer,
    /// The queue in front of the bucket: any discipline that does not schedule classes. The packet that waits for its tokens
    /// does not count towards the limits of this queue.
    pub queue: Box<Queue>,
}

impl Shaped {
    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        ensure(self.rate.bits_per_s() > 0, "rate", "must be above zero")?;
        let burst = 1..=2_000_000_000;
        ensure(burst.contains(&self.burst.bytes()), "burst", "must be above zero and at most 2 GB")?;
        ensure(!self.queue.is_of_classes(), "queue", "must not schedule classes: shape the classes instead")?;
        self.queue.check().map_err(|e| e.within("queue"))
    }
}

/// A queue in front of a shaper.
#[derive(Clone, Debug)]
pub struct ShapedQueue<P>(Box<Gate<P>>);

#[derive(Clone, Debug)]
struct Gate<P> {
    queue: Discipline<P>,
    /// The packet that waits for its tokens.
    head: Option<(P, Instant)>,
    bucket: TokenBucket,
    burst: u64,
    layer: Layer,
    framing: Framing,
}

impl<P: PacketMeta> ShapedQueue<P> {
    /// An empty queue in front of a full bucket.
    pub fn new(settings: &Shaped, context: &QueueContext<'_>) -> Self {
        let counted = if settings.layer.is_ip() { Framing::None } else { context.framing() };
        let inner = ClassContext::new(context.drained_at(settings.rate, counted), &[]);
        Self(Box::new(Gate {
            queue: Discipline::new(&settings.queue, &inner),
            head: None,
            bucket: TokenBucket::new(settings.rate, settings.burst),
            burst: settings.burst.bytes(),
            layer: settings.layer,
            framing: context.framing(),
        }))
    }
}

impl<P: PacketMeta> QueueDiscipline<P> for ShapedQueue<P> {
    fn enqueue(&mut self, now: Instant, packet: P, obs: &mut impl Observer<P>) {
        let gate = &mut *self.0;
        if gate.layer.bytes(packet.header(), gate.framing) > gate.burst {
            return obs.dropped(now, &packet, DropReason::Policed);
        }
        gate.queue.enqueue(now, packet, obs);
    }

    fn dequeue(&mut self, now: Instant, obs: &mut impl Observer<P>) -> Dequeue<P> {
        let gate = &mut *self.0;
        if gate.head.is_none() {
            match gate.queue.dequeue(now, obs) {
                Dequeue::Packet(packet, since) => gate.head = Some((packet, since)),
                other => return other,
            }
        }
        let Some((packet, since)) = gate.head.take() else { return Dequeue::Empty };
        let bytes = gate.layer.bytes(packet.header(), gate.framing);
        if gate.bucket.pass(now, bytes) {
            return Dequeue::Packet(packet, since);
        }
        gate.head = Some((packet, since));
        Dequeue::NotBefore(gate.bucket.ready(now, bytes))
    }

    fn clear(&mut self, now: Instant, why: DropReason, obs: &mut impl Observer<P>) {
        if let Some((packet, _)) = self.0.head.take() {
            obs.dropped(now, &packet, why);
        }
        self.0.queue.clear(now, why, obs);
    }

    fn backlog(&self) -> Backlog {
        let Backlog { packets, bytes } = self.0.queue.backlog();
        match &self.0.head {
            Some((packet, _)) => {
                Backlog { packets: packets + 1, bytes: bytes + u64::from(packet.header().ip_len) }
            }
            None => Backlog { packets, bytes },
        }
    }
}
