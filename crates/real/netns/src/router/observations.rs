//! Observations of the router on their way to the sink, so that the router's thread does not wait for it.

use netrig_core::{Frame, Note, PackedBytes, PacketEvent, Sample, Sink, Subject};

/// How many batches and agent messages may be queued: those of 25 s at the usual sample interval, at most
/// about [`FULL`] bytes each. If the queue is full, the router and the interface events wait. They record
/// this lateness, which makes the run invalid. Nothing is lost, and memory stays bounded.
pub(crate) const UNTAKEN: usize = 256;

/// A batch is sent when it reaches this size, bytes, however long the sample interval is.
pub(super) const FULL: usize = 1 << 20;

/// Observations since the last batch.
#[derive(Debug, Default)]
pub(crate) struct ObservationBatch {
    samples: Vec<(Subject, Sample)>,
    notes: Vec<Note>,
    packets: Vec<PacketEvent>,
    /// Frames without their bytes, and the bytes.
    frames: PackedBytes<Frame<'static>>,
    /// Whether the run is over and no frame is in transit.
    drained: bool,
    /// Approximate memory, bytes.
    bytes: usize,
}

impl ObservationBatch {
    /// The run is over and no frame is in transit.
    pub fn drained() -> Self {
        Self { drained: true, ..Self::default() }
    }

    /// A batch with one note.
    pub fn of_note(note: Note) -> Self {
        Self { notes: vec![note], ..Self::default() }
    }

    pub const fn is_drained(&self) -> bool {
        self.drained
    }

    /// Memory of its lists and their contents, bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes everything to `sink`.
    pub fn send_to(self, sink: &mut dyn Sink) {
        self.samples.into_iter().for_each(|(subject, sample)| sink.sample(subject, sample));
        self.notes.into_iter().for_each(|note| sink.note(note));
        self.packets.iter().for_each(|event| sink.packet(event));
        for (frame, bytes) in self.frames.iter() {
            let frame: Frame<'_> = *frame;
            sink.frame(&Frame { bytes, ..frame });
        }
    }
}

impl Sink for ObservationBatch {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.bytes += size_of::<(Subject, Sample)>();
        self.samples.push((subject, sample));
    }

    fn note(&mut self, note: Note) {
        self.bytes += size_of::<Note>() + note.text.len();
        self.notes.push(note);
    }

    fn packet(&mut self, event: &PacketEvent) {
        self.bytes += size_of::<PacketEvent>();
        self.packets.push(*event);
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let Frame { at, node, link, heading, bytes, original_len } = *frame;
        self.bytes += size_of::<Frame<'_>>() + bytes.len();
        self.frames.push(Frame { at, node, link, heading, bytes: &[], original_len }, bytes);
    }
}
