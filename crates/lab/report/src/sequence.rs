//! Sequence numbers against time as a chart.

use netrig_experiment::{Numbered, Numbers, Sequence};

use crate::chart::{Axis, AxisKind, Chart, ChartMark, Layer, Marks, Panel};

/// The figure of one direction of a connection. `at` is where the packets were captured, and `caption` describes the
/// run.
pub fn sequence(seen: &Sequence, at: &str, caption: &str) -> Chart {
    let [from, to] = seen.ends.map(|(address, port)| format!("{address} port {port}"));
    let (protocol, numbers) = match seen.numbers {
        Numbers::Bytes => ("TCP", "sequence number, relative (B)"),
        Numbers::Tsns => ("SCTP", "TSN, relative (chunks)"),
    };
    let beyond = window_beyond(seen);
    let window = if beyond.is_some() { Vec::new() } else { line(&seen.window) };
    // The layers are in drawing order. The names are in the order of importance to the reader.
    let layers = [
        ("window", Marks::Trace, window),
        ("acknowledged", Marks::Trace, line(&seen.acknowledged)),
        ("selectively acknowledged", Marks::Bars, bars(&seen.sacked)),
        ("sent", Marks::Bars, bars(&seen.sent)),
        ("sent again", Marks::Events, events(&seen.sent_again)),
    ];
    let names = ["sent", "sent again", "acknowledged", "window", "selectively acknowledged"];
    let layers = layers.into_iter().filter(|(.., points)| !points.is_empty());
    let layers: Vec<Layer> = layers
        .map(|(name, marks, points)| Layer { series: names.iter().position(|n| *n == name), marks, points })
        .collect();
    let shown = |(place, name): (usize, &str)| {
        let drawn = layers.iter().any(|layer| layer.series == Some(place));
        if drawn { name.to_owned() } else { String::new() }
    };
    Chart {
        title: format!("{protocol} from {from} to {to}, seen at {at}"),
        caption: match beyond {
            Some(bytes) => {
                format!(
                    "{caption} The peer's window reached {bytes} B beyond what was sent and is not drawn."
                )
            }
            None => caption.to_owned(),
        },
        x: Axis {
            title: "time since the start of the run (s)".to_owned(),
            scale: AxisKind::Linear { zero: false },
        },
        y: Axis { title: numbers.to_owned(), scale: AxisKind::Linear { zero: false } },
        series: names.into_iter().enumerate().map(shown).collect(),
        theory: Vec::new(),
        panels: vec![Panel { layers, ..Panel::default() }],
        grid: None,
        note: String::new(),
    }
}

/// How far the window extends beyond the sent data, bytes or chunks. `None` unless this distance would compress the
/// rest of the figure.
fn window_beyond(seen: &Sequence) -> Option<u64> {
    let data = || seen.sent.iter().chain(&seen.sent_again);
    let (lowest, highest) = (data().map(|span| span.from).min()?, data().map(|span| span.to).max()?);
    let window = seen.window.iter().map(|(_, number)| *number).max()?;
    Some(window.saturating_sub(highest)).filter(|beyond| *beyond > highest - lowest)
}

fn line(points: &[(netrig_core::Instant, u64)]) -> Vec<ChartMark> {
    points.iter().map(|(at, number)| ChartMark::at(at.as_secs_f64(), *number as f64)).collect()
}

fn bars(spans: &[Numbered]) -> Vec<ChartMark> {
    let bar = |span: &Numbered| ChartMark {
        interval: Some((span.from as f64, span.to as f64)),
        ..ChartMark::at(span.at.as_secs_f64(), span.from as f64)
    };
    spans.iter().map(bar).collect()
}

fn events(spans: &[Numbered]) -> Vec<ChartMark> {
    let event = |span: &Numbered| ChartMark {
        says: format!("{} to {} again at {}", span.from, span.to, span.at),
        ..ChartMark::at(span.at.as_secs_f64(), span.from as f64)
    };
    spans.iter().map(event).collect()
}
