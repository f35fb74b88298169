//! Batches of observations. The router sends them to another thread, which passes them to the sink, so the router does
//! not wait for the sink.

use netrig_core::{Frame, Note, PackedBytes, PacketEvent, Sample, Sink, Subject};

/// Capacity of the queue for batches and agent messages. At the usual sample interval, this corresponds to 25 s. Each
/// entry has at most about [`FULL`] bytes, so the memory is limited. If the queue is full, the router and the threads
/// of interface events wait. No observation is lost, but the recorded lateness makes the run invalid.
pub(crate) const UNTAKEN: usize = 256;

/// A batch is sent before the end of the sample interval if it reaches this size, bytes.
pub(super) const FULL: usize = 1 << 20;

/// Observations since the last batch.
#[derive(Debug, Default)]
pub(crate) struct ObservationBatch {
    samples: Vec<(Subject, Sample)>,
    notes: Vec<Note>,
    packets: Vec<PacketEvent>,
    /// Captured frames. Their bytes are stored separately.
    frames: PackedBytes<Frame<'static>>,
    /// Whether the run is over and no frame is in transit.
    drained: bool,
    /// Approximate memory, bytes.
    bytes: usize,
}

impl ObservationBatch {
    /// A batch that reports that the run is over and no frame is in transit.
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

    /// Approximate memory of the lists and their contents, bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes all observations to `sink`.
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
