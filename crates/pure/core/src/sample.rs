//! Measured values on their way from a model, an application or an agent to the experiment.

use serde::{Deserialize, Serialize};

use crate::{Direction, Frame, Instant, PacketEvent};

/// What kind of number a quantity is, and so how it may be reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityKind {
    /// How much was added since the last sample (bytes received, packets dropped): sums and rates.
    Count,
    /// One observation (an object's completion time, a packet's wait): means, quantiles, extremes.
    Value,
    /// The mean level since the last sample (queue length, window): time averages.
    Level,
    /// Something happened at this moment (first data, path failed): times and differences of times. The
    /// value is free for a detail, such as the number of a path.
    Mark,
}

/// Something that can be measured. Declared once, as a `static`, by the crate that measures it.
#[derive(Debug)]
pub struct Quantity {
    /// Its name in the store and in files: `snake_case`.
    pub name: &'static str,
    /// Its unit as written in tables: `B`, `s`, `packets`; `1` for a pure number.
    pub unit: &'static str,
    /// How it may be reduced.
    pub kind: QuantityKind,
    /// One sentence that defines it.
    pub doc: &'static str,
}

/// What a sample is about. The numbers are places in the scenario's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// The run as a whole.
    Run,
    /// One flow.
    Flow(u32),
    /// One path of a flow, by its place in the flow's list of paths.
    Path(u32, u8),
    /// One direction of a link.
    Link(u32, Direction),
    /// One class of one direction of a link, by its place in the direction's list of classes.
    Class(u32, Direction, u8),
    /// One rule of the traffic conditioner of one direction of a link, by its place in the direction's list of rules.
    Rule(u32, Direction, u16),
    /// One node.
    Node(u32),
    /// One counter of the programs of a node, by its place among those that the node's programs name.
    Counter(u32, u16),
}

/// One measured value.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When; for a [`QuantityKind::Count`] or [`QuantityKind::Level`] the end of the interval it is about.
    pub at: Instant,
    /// What.
    pub quantity: &'static Quantity,
    /// How much, in the quantity's unit.
    pub value: f64,
}

/// One line of a run's time line, in words: `T3-rtx on primary: cwnd 1500 B, error count 1 of 5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When.
    pub at: Instant,
    /// About what.
    pub subject: Subject,
    /// The words.
    pub text: String,
}

/// Takes what a run reports: per interval or per message, never per packet unless a trace or a capture was asked
/// for, so `dyn` is cheap enough.
pub trait Sink {
    /// A measured value.
    fn sample(&mut self, subject: Subject, sample: Sample);

    /// A line of the time line.
    fn note(&mut self, note: Note) {
        let _ = note;
    }

    /// Whether samples of this quantity are of any use: a source of one sample per packet asks first, once
    /// per run, and saves itself the trouble. Others may be given without asking.
    fn wants(&self, quantity: &'static Quantity) -> bool {
        let _ = quantity;
        true
    }

    /// This quantity of this subject is not counted in this run: that no sample of it comes does not mean zero. Told before
    /// the run, by substrates that see less than others.
    fn untold(&mut self, subject: Subject, quantity: &'static Quantity) {
        let _ = (subject, quantity);
    }

    /// Memory of the samples and notes that it keeps, about, bytes. Asked every some thousand events, and at the end of a run.
    fn kept_bytes(&self) -> u64 {
        0
    }

    /// Whether notes are wanted. Asked once per run.
    fn wants_notes(&self) -> bool {
        false
    }

    /// A packet at an interface of a node whose frames are wanted, in the order of time.
    fn frame(&mut self, frame: &Frame<'_>) {
        let _ = frame;
    }

    /// Whether the frames that pass the interfaces of this node are wanted. Asked once per run and node: what a
    /// capture costs, it costs those who want one.
    fn wants_frames(&self, node: u32) -> bool {
        let _ = node;
        false
    }

    /// Something happened to a packet on a link whose packets are wanted, in the order of time.
    fn packet(&mut self, event: &PacketEvent) {
        let _ = event;
    }

    /// Whether it is wanted what happens to each packet on this direction of this link. Asked once per run and direction.
    fn wants_packets(&self, link: u32, direction: Direction) -> bool {
        let _ = (link, direction);
        false
    }
}

/// A run's time line, for whoever writes lines of it: whether anybody reads them is asked once.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    wanted: bool,
}

impl Timeline {
    /// Asks `sink` whether it wants notes.
    pub fn new(sink: &dyn Sink) -> Self {
        Self { wanted: sink.wants_notes() }
    }

    /// Writes a line; `words` is asked for only if somebody reads it.
    pub fn note(&self, at: Instant, subject: Subject, words: impl FnOnce() -> String, sink: &mut dyn Sink) {
        if self.wanted {
            sink.note(Note { at, subject, text: words() });
        }
    }
}
