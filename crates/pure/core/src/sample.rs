//! Measured values that models, applications and agents report to the experiment.

use serde::{Deserialize, Serialize};

use crate::{Direction, Frame, Instant, PacketEvent};

/// The kind of a quantity. It decides how samples may be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityKind {
    /// The increase since the last sample (bytes received, packets dropped): sums and rates.
    Count,
    /// One observation (an object's completion time, a packet's wait): means, quantiles, extremes.
    Value,
    /// The mean of a state variable since the last sample (queue length, window): time averages.
    Gauge,
    /// An event at this time (first data, path failed): times and differences of times. The value is free for a
    /// detail, such as the number of a path.
    Mark,
}

/// A quantity that can be measured. The crate that measures it declares it once, as a `static`.
#[derive(Debug)]
pub struct Quantity {
    /// The name in the store and in files: `snake_case`.
    pub name: &'static str,
    /// The unit as written in tables: `B`, `s`, `packets`; `1` for a pure number.
    pub unit: &'static str,
    /// The kind of its samples.
    pub kind: QuantityKind,
    /// The definition, in one sentence.
    pub doc: &'static str,
}

/// The sum of some counts, divided by the sum of others.
#[derive(Clone, Copy, Debug)]
pub struct CountRatio {
    /// The counts of the numerator.
    pub part: &'static [&'static Quantity],
    /// The counts of the denominator.
    pub whole: &'static [&'static Quantity],
    /// Counts that are subtracted from the denominator.
    pub without: &'static [&'static Quantity],
    /// The reason for a missing value if the denominator is zero.
    pub nothing: &'static str,
}

impl CountRatio {
    /// The counts, each once.
    pub fn counts(&self) -> Vec<&'static Quantity> {
        let mut all: Vec<&'static Quantity> = Vec::new();
        for count in [self.part, self.whole, self.without].into_iter().flatten().copied() {
            if !all.iter().any(|known| std::ptr::eq(*known, count)) {
                all.push(count);
            }
        }
        all
    }

    /// The ratio, from the total of each count. `None` if the denominator is not above zero.
    pub fn of(&self, total: impl Fn(&'static Quantity) -> f64) -> Option<f64> {
        let sum = |counts: &[&'static Quantity]| counts.iter().copied().map(&total).sum::<f64>();
        let whole = sum(self.whole) - sum(self.without);
        (whole > 0.0).then(|| sum(self.part) / whole)
    }
}

/// The subject of a sample. The numbers are indices in the scenario's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The run as a whole.
    Run,
    /// One flow.
    Flow(u32),
    /// One path of a flow, by its index in the flow's list of paths.
    Path(u32, u8),
    /// One direction of a link.
    Link(u32, Direction),
    /// One class of one direction of a link, by its index in the direction's list of classes.
    Class(u32, Direction, u8),
    /// One rule of the traffic conditioner of one direction of a link, by its index in the direction's list of rules.
    Rule(u32, Direction, u16),
    /// One node.
    Node(u32),
    /// One counter of a node's programs, by its index among the counters that these programs name.
    Counter(u32, u16),
}

/// One measured value.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Time of the value. For a [`QuantityKind::Count`] or [`QuantityKind::Gauge`] it is the end of the interval.
    pub at: Instant,
    /// The measured quantity.
    pub quantity: &'static Quantity,
    /// The value in the quantity's unit.
    pub value: f64,
}

/// One line of a run's time line, as text: `T3-rtx on primary: cwnd 1500 B, error count 1 of 5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Time of the event.
    pub at: Instant,
    /// The subject of the event.
    pub subject: Subject,
    /// The text of the line.
    pub text: String,
}

/// Receives the reports of a run. Reports come per interval or per message; only traces and captures report per
/// packet. So `dyn` is cheap enough.
pub trait Sink {
    /// Receives a measured value.
    fn sample(&mut self, subject: Subject, sample: Sample);

    /// Receives a line of the time line.
    fn note(&mut self, note: Note) {
        let _ = note;
    }

    /// Whether the sink uses samples of this quantity. A source with one sample per packet calls this once per run and,
    /// if the result is false, reports no samples. Other sources may report without this call.
    fn wants(&self, quantity: &'static Quantity) -> bool {
        let _ = quantity;
        true
    }

    /// Declares that this run does not measure this quantity of this subject, so missing samples do not mean zero.
    /// Substrates that cannot measure every quantity call it before the run.
    fn untold(&mut self, subject: Subject, quantity: &'static Quantity) {
        let _ = (subject, quantity);
    }

    /// Approximate memory of the kept samples and notes, bytes. Called once per several thousand events and at the end
    /// of a run.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// Whether the sink wants notes. Called once per run.
    fn wants_notes(&self) -> bool {
        false
    }

    /// Receives a packet at an interface of a node whose frames are wanted, in the order of time.
    fn frame(&mut self, frame: &Frame<'_>) {
        let _ = frame;
    }

    /// Whether the sink wants the frames that pass the interfaces of this node. Called once per run and node, so only
    /// runs with a capture pay for it.
    fn wants_frames(&self, node: u32) -> bool {
        let _ = node;
        false
    }

    /// Receives an event of a packet on a link whose packets are wanted, in the order of time.
    fn packet(&mut self, event: &PacketEvent) {
        let _ = event;
    }

    /// Whether the sink wants the events of each packet on this direction of this link. Called once per run and
    /// direction.
    fn wants_packets(&self, link: u32, direction: Direction) -> bool {
        let _ = (link, direction);
        false
    }
}

/// Keeps all samples, in the order of their creation.
impl Sink for Vec<(Subject, Sample)> {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.push((subject, sample));
    }
}

/// Writes lines to a run's time line if the sink wants notes. It asks the sink only once.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    wanted: bool,
}

impl Timeline {
    /// Asks `sink` whether it wants notes.
    pub fn new(sink: &dyn Sink) -> Self {
        Self { wanted: sink.wants_notes() }
    }

    /// Writes a line. `words` is called only if the sink wants notes.
    pub fn note(&self, at: Instant, subject: Subject, words: impl FnOnce() -> String, sink: &mut dyn Sink) {
        if self.wanted {
            sink.note(Note { at, subject, text: words() });
        }
    }
}
