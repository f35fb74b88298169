//! Rows of the document: the data of a stream, or of all streams of a direction.

use serde::{Serialize, Serializer};

use super::super::results::finite;
use super::readings::{
    DirectionStreams, StreamInterval, StreamReadings, StreamTotals, TcpReadings, TestDocument, UdpReadings,
};

/// A row of the document. Values that this kind of row does not have are omitted.
#[derive(Clone, Default, Serialize)]
pub(super) struct JsonRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<u32>,
    #[serde(serialize_with = "finite")]
    start: f64,
    #[serde(serialize_with = "finite")]
    end: f64,
    #[serde(serialize_with = "finite")]
    seconds: f64,
    bytes: u64,
    #[serde(serialize_with = "finite")]
    bits_per_second: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmits: Option<u64>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    state: Option<TcpReadings>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    extremes: Option<TcpExtremes>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    loss: Option<UdpLoss>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out_of_order: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<bool>,
    sender: bool,
}

/// Extremes of a TCP sender over the whole test.
#[derive(Clone, Serialize)]
struct TcpExtremes {
    max_snd_cwnd: u64,
    max_snd_wnd: u64,
    max_rtt: u64,
    min_rtt: u64,
    mean_rtt: u64,
}

#[derive(Clone, Serialize)]
struct UdpLoss {
    #[serde(serialize_with = "finite")]
    jitter_ms: f64,
    lost_packets: u64,
    packets: u64,
    #[serde(serialize_with = "finite")]
    lost_percent: f64,
}

impl From<UdpReadings> for UdpLoss {
    fn from(udp: UdpReadings) -> Self {
        Self {
            jitter_ms: udp.jitter * 1e3,
            lost_packets: udp.lost,
            packets: udp.packets,
            lost_percent: ratio(100.0 * udp.lost as f64, udp.packets as f64),
        }
    }
}

impl JsonRow {
    fn new(start: f64, end: f64, bytes: u64, sender: bool) -> Self {
        let seconds = end - start;
        let bits_per_second = ratio(bytes as f64 * 8.0, seconds);
        Self { start, end, seconds, bytes, bits_per_second, sender, ..Self::default() }
    }
}

/// `part` divided by `whole`; 0 if `whole` is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The rows of all streams in one interval.
#[derive(Serialize)]
pub(super) struct JsonInterval {
    streams: Vec<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_bidir_reverse: Option<JsonRow>,
}

/// The rows of all intervals of a test.
pub(super) fn interval_rows(document: &TestDocument) -> Vec<JsonInterval> {
    let tcp = document.is_tcp();
    let halves = document.halves();
    let count = document.streams.iter().map(|stream| stream.intervals.len()).max().unwrap_or(0);
    let one = |at: usize| {
        let mut rows = JsonInterval { streams: Vec::new(), sum: None, sum_bidir_reverse: None };
        for half in &halves {
            let intervals: Vec<_> =
                half.streams.iter().filter_map(|stream| Some((*stream, stream.intervals.get(at)?))).collect();
            rows.streams.extend(intervals.iter().map(|(stream, interval)| stream_row(stream, interval, tcp)));
            let sum = sum_row(half, &intervals, tcp);
            *(if half.second { &mut rows.sum_bidir_reverse } else { &mut rows.sum }) = sum;
        }
        rows
    };
    (0..count).map(one).collect()
}

fn stream_row(stream: &StreamReadings, interval: &StreamInterval, tcp: bool) -> JsonRow {
    let row = JsonRow {
        socket: Some(stream.path.socket),
        omitted: Some(interval.omitted),
        ..JsonRow::new(interval.start, interval.end, interval.bytes, stream.sends)
    };
    match interval.tcp.filter(|_| tcp && stream.sends) {
        Some(read) => JsonRow { retransmits: Some(read.retransmits), state: Some(read), ..row },
        None if tcp => row,
        None if stream.sends => JsonRow { packets: Some(interval.udp.packets), ..row },
        None => JsonRow { loss: Some(interval.udp.into()), ..row },
    }
}

/// The sum over all streams of a direction in one interval. The times are those of the first stream.
fn sum_row(
    half: &DirectionStreams<'_>,
    intervals: &[(&StreamReadings, &StreamInterval)],
    tcp: bool,
) -> Option<JsonRow> {
    let (_, first) = intervals.first()?;
    let bytes = intervals.iter().map(|(_, interval)| interval.bytes).sum();
    let row =
        JsonRow { omitted: Some(first.omitted), ..JsonRow::new(first.start, first.end, bytes, half.sends) };
    let sent_again = intervals.iter().filter_map(|(_, interval)| Some(interval.tcp?.retransmits));
    let udp = sum_udp(intervals.iter().map(|(_, interval)| interval.udp));
    Some(match (tcp, half.sends) {
        (true, true) => JsonRow { retransmits: first.tcp.map(|_| sent_again.sum()), ..row },
        (true, false) => row,
        (false, true) => JsonRow { packets: Some(udp.packets), ..row },
        (false, false) => JsonRow { loss: Some(udp.into()), ..row },
    })
}

/// The sums of the counts of several streams, and the mean of their jitter.
fn sum_udp(readings: impl Iterator<Item = UdpReadings>) -> UdpReadings {
    let (mut sum, mut streams) = (UdpReadings::default(), 0_u32);
    for read in readings {
        sum.packets += read.packets;
        sum.lost += read.lost;
        sum.out_of_order += read.out_of_order;
        sum.jitter += read.jitter;
        streams += 1;
    }
    sum.jitter = ratio(sum.jitter, streams.into());
    sum
}

/// The totals of a test. Empty if the test ended early.
#[derive(Default, Serialize)]
pub(super) struct JsonEnd<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Vec<JsonEndStream>>,
    #[serde(flatten)]
    first: JsonSums,
    #[serde(flatten, serialize_with = "reverse")]
    second: JsonSums,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_utilization_percent: Option<CpuRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sender_tcp_congestion: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    receiver_tcp_congestion: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonEndStream {
    Tcp { sender: Box<JsonRow>, receiver: Box<JsonRow> },
    Udp { udp: Box<JsonRow> },
}

/// The sums of a direction.
#[derive(Clone, Default, Serialize)]
struct JsonSums {
    #[serde(skip_serializing_if = "Option::is_none")]
    sum: Option<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_sent: Option<JsonRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sum_received: Option<JsonRow>,
}

fn reverse<S: Serializer>(sums: &JsonSums, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Reverse<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        sum_bidir_reverse: &'a Option<JsonRow>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sum_sent_bidir_reverse: &'a Option<JsonRow>,
        #[serde(skip_serializing_if = "Option::is_none")]
        sum_received_bidir_reverse: &'a Option<JsonRow>,
    }
    let JsonSums { sum, sum_sent, sum_received } = sums;
    Reverse {
        sum_bidir_reverse: sum,
        sum_sent_bidir_reverse: sum_sent,
        sum_received_bidir_reverse: sum_received,
    }
    .serialize(to)
}

#[derive(Serialize)]
struct CpuRow {
    #[serde(serialize_with = "finite")]
    host_total: f64,
    #[serde(serialize_with = "finite")]
    host_user: f64,
    #[serde(serialize_with = "finite")]
    host_system: f64,
    #[serde(serialize_with = "finite")]
    remote_total: f64,
    #[serde(serialize_with = "finite")]
    remote_user: f64,
    #[serde(serialize_with = "finite")]
    remote_system: f64,
}

/// The totals of both ends of a stream.
struct StreamEnds<'a> {
    stream: &'a StreamReadings,
    sent: StreamTotals,
    received: StreamTotals,
}

impl<'a> StreamEnds<'a> {
    /// Totals of the peer that are missing are replaced by zeros with the duration of this end.
    fn new(stream: &'a StreamReadings) -> Option<Self> {
        let local = stream.local?;
        let remote =
            stream.remote.unwrap_or(StreamTotals { seconds: local.seconds, ..StreamTotals::default() });
        let (sent, received) = if stream.sends { (local, remote) } else { (remote, local) };
        Some(Self { stream, sent, received })
    }

    /// The counts of the receiver, with the sender's number of packets if it is known.
    fn udp(&self) -> UdpReadings {
        let packets = if self.sent.udp.packets > 0 { self.sent } else { self.received }.udp.packets;
        UdpReadings { packets, ..self.received.udp }
    }

    fn row(&self, end: &StreamTotals) -> JsonRow {
        JsonRow {
            socket: Some(self.stream.path.socket),
            ..JsonRow::new(0.0, end.seconds, end.bytes, self.stream.sends)
        }
    }

    fn tcp_rows(&self) -> JsonEndStream {
        let sender = JsonRow {
            retransmits: self.sent.retransmits,
            extremes: self.sent.retransmits.map(|_| extremes(&self.stream.intervals)),
            ..self.row(&self.sent)
        };
        JsonEndStream::Tcp { sender: sender.into(), receiver: self.row(&self.received).into() }
    }

    fn udp_row(&self) -> JsonEndStream {
        let udp = self.udp();
        let (loss, out_of_order) = (Some(udp.into()), Some(udp.out_of_order));
        JsonEndStream::Udp { udp: JsonRow { loss, out_of_order, ..self.row(&self.sent) }.into() }
    }
}

fn extremes(intervals: &[StreamInterval]) -> TcpExtremes {
    let read = || intervals.iter().filter_map(|interval| interval.tcp);
    let count = read().count() as u64;
    let most = |of: fn(TcpReadings) -> u64| read().map(of).max().unwrap_or(0);
    TcpExtremes {
        max_snd_cwnd: most(|tcp| tcp.congestion_window),
        max_snd_wnd: most(|tcp| tcp.send_window),
        max_rtt: most(|tcp| tcp.rtt),
        min_rtt: read().map(|tcp| tcp.rtt).min().unwrap_or(0),
        mean_rtt: read().map(|tcp| tcp.rtt).sum::<u64>().checked_div(count).unwrap_or(0),
    }
}

impl<'a> JsonEnd<'a> {
    pub fn new(document: &'a TestDocument) -> Self {
        let halves = document.halves();
        let mut rows = Self::default();
        for half in &halves {
            let ends: Option<Vec<_>> = half.streams.iter().map(|stream| StreamEnds::new(stream)).collect();
            let Some(ends) = ends.filter(|ends| !ends.is_empty()) else { return Self::default() };
            let tcp = document.is_tcp();
            let streams = ends.iter().map(|ends| if tcp { ends.tcp_rows() } else { ends.udp_row() });
            rows.streams.get_or_insert_default().extend(streams);
            let sums = if tcp { tcp_sums(half, &ends) } else { udp_sums(half, &ends) };
            *(if half.second { &mut rows.second } else { &mut rows.first }) = sums;
        }
        rows.finish(document, halves.last().is_some_and(|half| half.sends));
        rows
    }

    fn finish(&mut self, document: &'a TestDocument, sends: bool) {
        let (host, remote) = (document.cpu, document.remote_cpu);
        self.cpu_utilization_percent = Some(CpuRow {
            host_total: host.total,
            host_user: host.user,
            host_system: host.system,
            remote_total: remote.total,
            remote_user: remote.user,
            remote_system: remote.system,
        });
        if document.is_tcp() {
            let (ours, theirs) = (document.congestion.as_deref(), document.remote_congestion.as_deref());
            (self.sender_tcp_congestion, self.receiver_tcp_congestion) =
                if sends { (ours, theirs) } else { (theirs, ours) };
        }
    }
}

/// The sum over all streams of a direction. The duration is that of the first stream.
fn end_sum(
    half: &DirectionStreams<'_>,
    ends: &[StreamEnds<'_>],
    of: fn(&StreamEnds<'_>) -> StreamTotals,
) -> JsonRow {
    let seconds = ends.first().map_or(0.0, |ends| of(ends).seconds);
    JsonRow::new(0.0, seconds, ends.iter().map(|ends| of(ends).bytes).sum(), half.sends)
}

fn tcp_sums(half: &DirectionStreams<'_>, ends: &[StreamEnds<'_>]) -> JsonSums {
    let again: Option<Vec<_>> = ends.iter().map(|ends| ends.sent.retransmits).collect();
    let retransmits = again.map(|again| again.iter().sum());
    JsonSums {
        sum: None,
        sum_sent: Some(JsonRow { retransmits, ..end_sum(half, ends, |ends| ends.sent) }),
        sum_received: Some(end_sum(half, ends, |ends| ends.received)),
    }
}

fn udp_sums(half: &DirectionStreams<'_>, ends: &[StreamEnds<'_>]) -> JsonSums {
    let all = sum_udp(ends.iter().map(StreamEnds::udp));
    let sent =
        sum_udp(ends.iter().map(|ends| UdpReadings { packets: ends.sent.udp.packets, ..Default::default() }));
    let received = UdpReadings { packets: ends.iter().map(|ends| ends.received.udp.packets).sum(), ..all };
    let of_sent = end_sum(half, ends, |ends| ends.sent);
    let of_received = end_sum(half, ends, |ends| ends.received);
    // The entry `sum` has the amount and the rate of the sent data, with the receiver's duration.
    let both = JsonRow {
        end: of_received.end,
        seconds: of_received.seconds,
        loss: Some(all.into()),
        ..of_sent.clone()
    };
    JsonSums {
        sum: Some(both),
        sum_sent: Some(JsonRow { loss: Some(sent.into()), sender: true, ..of_sent }),
        sum_received: Some(JsonRow { loss: Some(received.into()), sender: false, ..of_received }),
    }
}
