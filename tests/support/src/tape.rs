//! A record of everything that a run reports.

use netrig_core::{Frame, Heading, Instant, Note, Quantity, Sample, Sink, Subject, pcapng};

/// A sink that stores all samples and the time line of a run, and the packets at the interfaces of selected nodes.
#[derive(Default)]
pub struct Tape {
    samples: Vec<(Subject, Sample)>,
    notes: Vec<Note>,
    nodes: Vec<u32>,
    frames: Vec<Seen>,
}

/// A packet at an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The time.
    pub at: Instant,
    /// The index of the node in the scenario.
    pub node: u32,
    /// The index of the interface's link.
    pub link: u32,
    /// The direction, seen from the node.
    pub heading: Heading,
    /// The kept bytes of the packet, from the IP header on.
    pub bytes: Vec<u8>,
    /// Length of the whole packet, bytes.
    pub original_len: u32,
}

impl Tape {
    /// A tape that also stores the packets at these nodes, given by their indices in the scenario.
    pub fn at(nodes: Vec<u32>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// The packets that passed the interface of a node to a link in one direction.
    pub fn frames(&self, node: u32, link: u32, heading: Heading) -> Vec<&Seen> {
        let theirs = |seen: &&Seen| (seen.node, seen.link, seen.heading) == (node, link, heading);
        self.frames.iter().filter(theirs).collect()
    }

    /// All packets in the order of time.
    pub fn all_frames(&self) -> &[Seen] {
        &self.frames
    }

    /// All samples in the order in which they were taken.
    pub fn samples(&self) -> &[(Subject, Sample)] {
        &self.samples
    }

    /// A capture of the packets at a node, as pcapng. The interfaces have the numbers of the links.
    pub fn capture(&self, node: u32) -> Vec<u8> {
        let mut file = Vec::new();
        pcapng::section(&mut file, "netrig", "a test");
        let links = self.frames.iter().map(|seen| seen.link + 1).max().unwrap_or(0);
        for link in 0..links {
            pcapng::interface(&mut file, pcapng::LinkType::RawIp, (&format!("link {link}"), ""), 0);
        }
        for seen in self.frames.iter().filter(|seen| seen.node == node) {
            let Seen { bytes, original_len, .. } = seen;
            let (at, node, link, heading) = (seen.at, seen.node, seen.link, seen.heading);
            let frame = Frame { at, node, link, heading, bytes, original_len: *original_len };
            pcapng::packet(&mut file, link, 0, &frame);
        }
        file
    }

    /// The samples of one quantity of one subject, in the order of time.
    pub fn series(&self, subject: Subject, quantity: &'static Quantity) -> Vec<(Instant, f64)> {
        let wanted = |of: &Subject, sample: &Sample| *of == subject && sample.quantity.name == quantity.name;
        self.samples.iter().filter(|(of, s)| wanted(of, s)).map(|(_, s)| (s.at, s.value)).collect()
    }

    /// The values of [`series`](Self::series) without their times.
    pub fn values(&self, subject: Subject, quantity: &'static Quantity) -> Vec<f64> {
        self.series(subject, quantity).into_iter().map(|(_, value)| value).collect()
    }

    /// The time line.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

impl Sink for Tape {
    fn sample(&mut self, subject: Subject, sample: Sample) {
        self.samples.push((subject, sample));
    }

    fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    fn wants_notes(&self) -> bool {
        true
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        let &Frame { at, node, link, heading, bytes, original_len } = frame;
        self.frames.push(Seen { at, node, link, heading, bytes: bytes.to_vec(), original_len });
    }

    fn wants_frames(&self, node: u32) -> bool {
        self.nodes.contains(&node)
    }
}
