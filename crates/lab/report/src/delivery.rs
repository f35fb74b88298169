//! The delivery of each message as a chart, by stream.

use std::collections::BTreeMap;

use netrig_core::Instant;
use netrig_experiment::MessageDelivery;

use crate::chart::{Axis, AxisKind, Chart, ChartMark, Layer, Marks, Panel};

/// The largest number of streams in a figure.
const MOST_STREAMS: usize = 12;

/// The figure of the messages of an association, with a panel for each of the first twelve streams. For each message,
/// one bar shows the time from sending to arrival, and another the time from arrival to delivery. `ends` names the
/// nodes.
pub fn delivery(messages: &[MessageDelivery], ends: [&str; 2], caption: &str) -> Chart {
    let mut streams: BTreeMap<u16, Vec<&MessageDelivery>> = BTreeMap::new();
    for message in messages {
        streams.entry(message.stream).or_default().push(message);
    }
    let left_out = streams.len().saturating_sub(MOST_STREAMS);
    let more = if left_out > 0 {
        format!(" {left_out} more {} not drawn.", if left_out == 1 { "stream is" } else { "streams are" })
    } else {
        String::new()
    };
    let panel = |(stream, messages): (&u16, &Vec<&MessageDelivery>)| Panel {
        title: format!("stream {stream}"),
        layers: vec![
            layer(0, messages, |message| (message.sent, message.arrived)),
            layer(1, messages, |message| (message.arrived, message.delivered)),
        ],
        spans: Vec::new(),
    };
    Chart {
        title: format!("Messages from {} to {}, by their stream", ends[0], ends[1]),
        caption: format!("{caption}{more}"),
        x: Axis {
            title: "message sent, since the start of the run (s)".to_owned(),
            scale: AxisKind::Linear { zero: false },
        },
        y: Axis { title: "time until delivery (s)".to_owned(), scale: AxisKind::Linear { zero: true } },
        series: vec!["on the way".to_owned(), "waiting for earlier messages of its stream".to_owned()],
        theory: Vec::new(),
        panels: streams.iter().take(MOST_STREAMS).map(panel).collect(),
        grid: None,
        note: String::new(),
    }
}

/// Bars over one time span of each message. Empty spans are omitted.
fn layer(
    series: usize,
    messages: &[&MessageDelivery],
    span: fn(&MessageDelivery) -> (Instant, Instant),
) -> Layer {
    let bar = |message: &&MessageDelivery| {
        let (from, to) = span(message);
        let since_sent = |at: Instant| at.since(message.sent).as_secs_f64();
        let bar = ChartMark {
            interval: Some((since_sent(from), since_sent(to))),
            ..ChartMark::at(message.sent.as_secs_f64(), since_sent(to))
        };
        (from < to).then_some(bar)
    };
    Layer { series: Some(series), marks: Marks::Bars, points: messages.iter().filter_map(bar).collect() }
}
