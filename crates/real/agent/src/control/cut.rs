//! Splits orders, samples and notes into frames of limited length.

use std::collections::BTreeMap;

use netrig_core::{Note, Quantity, Sample, Subject};

use super::{Column, ControlReply, ControlRequest, NoteLine};
use crate::carrier::Samples;
use crate::{CarrierOptions, EndOrder, RunOrder, TimedControl};

/// A frame gets no further content when the upper bound of its length reaches this many bytes.
const FULL: usize = 1 << 20;

/// Upper bounds of lengths in a frame, bytes: of a sample in its column (time, value and commas), of an empty column
/// without the quantity's name, and of an entry of the time line without its text.
const LONGEST_SAMPLE: usize = 48;
const LONGEST_COLUMN: usize = 128;
const LONGEST_LINE: usize = 128;

/// Scheduled events of associations per frame. Each takes at most 128 B.
const CONTROLS_PER_FRAME: usize = FULL / 128;

/// The requests that order a run: first those for its ends, then [`ControlRequest::Prepare`]. Each fits into a frame.
pub fn order_frames(mut run: RunOrder) -> impl Iterator<Item = ControlRequest> {
    let ends = std::mem::take(&mut run.ends);
    ends.into_iter().flat_map(end_frames).chain([ControlRequest::Prepare { run }])
}

/// The requests that order an end. Scheduled events of associations that do not fit into the frame of the end follow in
/// further requests.
fn end_frames(mut end: EndOrder) -> impl Iterator<Item = ControlRequest> {
    let mut rest = match &mut end.carrier {
        CarrierOptions::Sctp(options) => {
            let first = options.controls.len().min(CONTROLS_PER_FRAME);
            options.controls.split_off(first)
        }
        CarrierOptions::Udp(_) | CarrierOptions::Tcp(_) => Vec::new(),
    };
    let further = std::iter::from_fn(move || {
        let controls: Vec<_> = rest.drain(..rest.len().min(CONTROLS_PER_FRAME)).collect();
        (!controls.is_empty()).then_some(ControlRequest::Controls { controls })
    });
    std::iter::once(ControlRequest::End { end: Box::new(end) }).chain(further)
}

/// The ends of the next run, collected as they arrive.
#[derive(Debug, Default)]
pub(crate) struct PendingEnds(Vec<EndOrder>);

impl PendingEnds {
    pub fn add(&mut self, end: EndOrder) {
        self.0.push(end);
    }

    /// Adds scheduled events to the associations of the last end. Returns false if the last end has no associations.
    pub fn control(&mut self, controls: Vec<TimedControl>) -> bool {
        match self.0.last_mut().map(|end| &mut end.carrier) {
            Some(CarrierOptions::Sctp(options)) => {
                options.controls.extend(controls);
                true
            }
            _ => false,
        }
    }

    /// Moves all ends into the run.
    pub fn complete(&mut self, run: RunOrder) -> RunOrder {
        RunOrder { ends: std::mem::take(&mut self.0), ..run }
    }
}

/// Samples as frames of limited length. Samples whose value is not finite are left out.
pub fn sample_frames(samples: &Samples) -> impl Iterator<Item = ControlReply> {
    let mut rest = samples.iter().filter(|(_, sample)| sample.value.is_finite()).peekable();
    std::iter::from_fn(move || {
        rest.peek()?;
        let mut columns = Columns::default();
        while columns.bytes < FULL
            && let Some((subject, sample)) = rest.next()
        {
            columns.add(*subject, sample);
        }
        Some(ControlReply::Samples { columns: columns.by_subject.into_values().collect() })
    })
}

/// The columns of a frame that is being filled.
#[derive(Default)]
struct Columns {
    by_subject: BTreeMap<(Subject, &'static str), Column>,
    /// Upper bound of the length of these columns in a frame, bytes.
    bytes: usize,
}

impl Columns {
    fn add(&mut self, subject: Subject, sample: &Sample) {
        let Quantity { name, .. } = *sample.quantity;
        let column = self.by_subject.entry((subject, name)).or_insert_with(|| {
            self.bytes += LONGEST_COLUMN + name.len();
            Column { subject, quantity: name.into(), at_ns: Vec::new(), values: Vec::new() }
        });
        self.bytes += LONGEST_SAMPLE;
        column.at_ns.push(sample.at.as_nanos());
        column.values.push(sample.value);
    }
}

/// Entries of the time line as frames of limited length.
pub fn note_frames(notes: &[Note]) -> impl Iterator<Item = ControlReply> {
    let mut rest = notes;
    std::iter::from_fn(move || {
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while bytes < FULL
            && let Some(note) = rest.split_off_first()
        {
            // JSON escapes one byte of text with at most six bytes, such as `\u001b`.
            bytes += LONGEST_LINE + 6 * note.text.len();
            lines.push(NoteLine::from(note));
        }
        (!lines.is_empty()).then_some(ControlReply::Notes { lines })
    })
}

#[cfg(test)]
mod tests {
    use netrig_core::{Direction, Duration, Instant, Size, quantity as shared};
    use netrig_traffic::{FlowSide, Settings, Trace};
    use netrig_transport::sctp::Config as SctpConfig;
    use netrig_transport::{Control, PathId, Profile};

    use super::*;
    use crate::control::tests::framed;
    use crate::it::common;
    use crate::{EndReport, SctpOptions};
    use netrig_host::frames::{MAX_FRAME, read_frame};
    use netrig_host::socket::UdpOptions;
    use netrig_host::{RequestedGaps, SourceMeter};

    /// A full frame stays below the upper bound of its length, and therefore below the longest allowed frame.
    #[test]
    fn a_full_frame_of_samples_is_not_too_long() {
        let sample = |quantity| Sample {
            at: Instant::from_nanos(u64::MAX),
            quantity,
            value: -1.234_567_890_123_456_7e-300,
        };
        let of_one = vec![(Subject::Path(u32::MAX, u8::MAX), sample(&shared::SRTT)); 1 << 15];
        // Many columns with one sample each.
        let longest = shared::ALL.iter().max_by_key(|quantity| quantity.name.len()).unwrap();
        let rule = |place| Subject::Rule(u32::MAX - place, Direction::Backward, u16::MAX);
        let of_many = (0..1 << 15).map(|place| (rule(place), sample(longest))).collect();
        for samples in [of_one, of_many] {
            let mut back = 0;
            for frame in sample_frames(&samples) {
                let bytes = framed(&frame);
                assert!(bytes.len() <= FULL + LONGEST_COLUMN, "{} B", bytes.len());
                let Some(ControlReply::Samples { columns }) = read_frame(&mut &bytes[..]).unwrap() else {
                    panic!()
                };
                back += columns.iter().map(|column| column.values.len()).sum::<usize>();
            }
            assert_eq!(back, samples.len());
        }
    }

    #[test]
    fn a_time_line_of_any_length_fits_into_frames() {
        let note = |place: u32| Note {
            at: Instant::from_nanos(u64::MAX),
            subject: Subject::Rule(u32::MAX, Direction::Backward, u16::MAX),
            text: format!("{place}\u{1b}").repeat(20),
        };
        let notes: Vec<_> = (0..50_000).map(note).collect();
        let mut back = Vec::new();
        for frame in note_frames(&notes) {
            let Some(ControlReply::Notes { lines }) = read_frame(&mut &framed(&frame)[..]).unwrap() else {
                panic!()
            };
            back.extend(lines.into_iter().map(Note::from));
        }
        assert_eq!(back, notes);
    }

    /// An end of a flow of datagrams.
    fn end(flow: u32) -> EndOrder {
        let application = r#"{ "cbr": { "interval": "1 ms", "size": "100 B" } }"#;
        let carrier = CarrierOptions::Udp(UdpOptions::default());
        let (server, stop) = (([10, 0, 0, 2], 5001).into(), Duration::from_nanos(1));
        let end = common::end(FlowSide::Client, application, carrier, server, stop);
        EndOrder { flow, name: format!("flow#{flow}"), ..end }
    }

    /// The run that an agent assembles from the frames of an order.
    fn assembled(run: RunOrder) -> RunOrder {
        let mut ends = PendingEnds::default();
        for request in order_frames(run) {
            match read_frame(&mut &framed(&request)[..]).unwrap() {
                Some(ControlRequest::End { end }) => ends.add(*end),
                Some(ControlRequest::Controls { controls }) => assert!(ends.control(controls)),
                Some(ControlRequest::Prepare { run }) => return ends.complete(run),
                other => panic!("{other:?}"),
            }
        }
        panic!("no request to prepare the run")
    }

    fn run(ends: Vec<EndOrder>) -> RunOrder {
        common::order(Duration::from_nanos(1), ends)
    }

    #[test]
    fn ten_thousand_ends_are_ordered() {
        let order = run((0..10_000).map(end).collect());
        assert!(serde_json::to_vec(&order.ends).unwrap().len() > MAX_FRAME / 2);
        assert_eq!(assembled(order.clone()), order);
    }

    /// The longest trace that an experiment file of 1 MiB can contain, with 12 B for each datagram.
    #[test]
    fn the_longest_trace_is_ordered() {
        let datagram = (Duration::from_nanos(u64::MAX - 1), Size::from_bytes(65_507));
        let trace = Trace { datagrams: vec![datagram; (1 << 20) / 12], capture: None, repeat: false };
        let order = run(vec![EndOrder { application: Settings::Trace(trace), ..end(0) }]);
        assert_eq!(assembled(order.clone()), order);
    }

    #[test]
    fn associations_are_told_of_a_million_events() {
        let config = SctpConfig::of(Profile::Rfc);
        let control = |at_ns| TimedControl { at_ns, control: Control::SetPrimary(PathId(u8::MAX)) };
        let controls = (0..1_000_000).map(|event| control(u64::MAX - event)).collect();
        let options = SctpOptions { config, paths: vec![], controls };
        let order =
            run(vec![EndOrder { carrier: CarrierOptions::Sctp(Box::new(options)), ..end(0) }, end(1)]);
        assert_eq!(assembled(order.clone()), order);
    }

    /// The report of a source is longest if the lateness of its datagrams covers the whole range from 1 ns to a minute.
    #[test]
    fn ten_thousand_ends_report() {
        let mut meter = SourceMeter::new(RequestedGaps::Schedule);
        for late in
            (0..36).map(|power| 1 << power).flat_map(|ns| (0..16).map(move |part| ns + ns * part / 16))
        {
            meter.sent(Instant::from_nanos(late), Instant::from_nanos(2 * late));
        }
        let report = |flow| EndReport {
            source: Some(meter.report()),
            faults: vec!["a sentence".into()],
            ..EndReport::empty(&end(flow), Default::default())
        };
        let mut bytes = 0;
        for end in (0..10_000).map(report) {
            let frame = framed(&ControlReply::Report { end: Box::new(end.clone()) });
            bytes += frame.len();
            assert_eq!(
                read_frame(&mut &frame[..]).unwrap(),
                Some(ControlReply::Report { end: Box::new(end) })
            );
        }
        assert!(bytes > MAX_FRAME, "{bytes} B would have fitted into one frame");
    }
}
