//! What the router tells, on its way to whoever wants it: its own thread must not wait for them.

use netrig_core::{Frame, Heading, Instant, Note, PacketEvent, Sample, Sink, Subject};

/// How many findings and words of agents may wait for whoever takes them: those of 25 s at the usual interval of samples, and
/// at most [`FULL`] bytes each, or little more. Then the router and the events of interfaces wait too: what they do is late,
/// which they measure, so that the run says that it is worth nothing. Nothing is lost, and no memory fills.
pub(crate) const UNTAKEN: usize = 256;

/// So many bytes of findings are told at once, be the interval of samples ever so long.
pub(super) const FULL: usize = 1 << 20;

/// What was found since the last time it was told.
#[derive(Debug, Default)]
pub(crate) struct ObservationBatch {
    samples: Vec<(Subject, Sample)>,
    notes: Vec<Note>,
    packets: Vec<PacketEvent>,
    frames: Vec<CapturedFrame>,
    /// Whether the run is over and nothing is on its way any more.
    drained: bool,
    /// Memory that all of it takes, about.
    bytes: usize,
}

/// A frame, with its bytes.
#[derive(Debug)]
struct CapturedFrame {
    at: Instant,
    node: u32,
    link: u32,
    heading: Heading,
    bytes: Vec<u8>,
    original_len: u32,
}

impl ObservationBatch {
    /// That the run is over and nothing is on its way any more.
    pub fn drained() -> Self {
        Self { drained: true, ..Self::default() }
    }

    /// One line of the time line.
    pub fn of_note(note: Note) -> Self {
        Self { notes: vec![note], ..Self::default() }
    }

    /// Whether it is that.
    pub const fn is_drained(&self) -> bool {
        self.drained
    }

    /// Memory that it takes, bytes: what is in its lists, and what that leads to.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Tells all of it.
    pub fn tell(self, sink: &mut dyn Sink) {
        self.samples.into_iter().for_each(|(subject, sample)| sink.sample(subject, sample));
        self.notes.into_iter().for_each(|note| sink.note(note));
        self.packets.iter().for_each(|event| sink.packet(event));
        for CapturedFrame { at, node, link, heading, bytes, original_len } in &self.frames {
            let (at, node, link, heading, original_len) = (*at, *node, *link, *heading, *original_len);
            sink.frame(&Frame { at, node, link, heading, bytes, original_len });
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
        let bytes = bytes.to_vec();
        self.bytes += size_of::<CapturedFrame>() + bytes.len();
        self.frames.push(CapturedFrame { at, node, link, heading, bytes, original_len });
    }
}
