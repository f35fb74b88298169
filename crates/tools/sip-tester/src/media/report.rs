//! The results of the media of all calls.

use netrig_stats::interval::student;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::MediaResult;

/// A share or a mean, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaShare {
    /// The share, or the mean.
    pub value: f64,
    /// The lower end of the interval; absent if only one call has a value.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
}

impl MediaShare {
    /// The same value, with the interval limited to `least` to `most`.
    fn within(self, least: f64, most: f64) -> Self {
        let cut = |end: Option<f64>| end.map(|end| end.clamp(least, most));
        Self { low: cut(self.low), high: cut(self.high), ..self }
    }
}

/// The media of all calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaReport {
    /// Codec.
    pub codec: String,
    /// Calls with media.
    pub calls: u64,
    /// Calls that received no packet. They count in the loss if the other side reported how many packets it sent.
    pub silent_calls: u64,
    /// Silent calls without such a report; they count in no share.
    #[serde(default)]
    pub unknown_calls: u64,
    /// Calls whose other side requires media that the tester does not have, such as SRTP.
    pub unsupported_calls: u64,
    /// Calls for which there was no free port.
    pub without_port: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the other sides sent: by their last reports, else by sequence numbers.
    pub expected: u64,
    /// Packets received, each once.
    pub received: u64,
    /// Calls whose other side reported at its end how many packets it sent.
    pub told_calls: u64,
    /// Duplicate packets.
    pub copies: u64,
    /// Packets that arrived after one that was sent later.
    pub reordered: u64,
    /// Changes of the source (SSRC) of received packets.
    #[serde(default)]
    pub stream_changes: u64,
    /// Packets that the tester sent more than 10 ms late.
    pub late: u64,
    /// Packets that the kernel refused.
    pub unsent: u64,
    /// Packets that were dropped because a socket of the tester was full.
    pub dropped: u64,
    /// Share of packets that did not reach the tester, with the variation between calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<MediaShare>,
    /// Share of the tester's packets that did not reach the other side, by its reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_there: Option<MediaShare>,
    /// Share of packets that were missing at their play-out time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MediaShare>,
    /// Interarrival jitter, s (RFC 3550): the mean over calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<MediaShare>,
    /// Round-trip time by RTCP, s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<MediaShare>,
    /// Mean opinion score of ITU-T G.107, 1 to 4.5: the mean over calls, with 1 for a call that received none of the
    /// packets sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mos: Option<MediaShare>,
    /// Calls whose score is below 3.6, at which many users are dissatisfied (ITU-T G.109).
    pub poor_calls: u64,
}

/// The score below which many users are dissatisfied (ITU-T G.109, R = 70).
const POOR: f64 = 3.6;

impl MediaReport {
    /// Why the results must not be attributed to the network, in sentences.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = sending_faults(self.sent, self.late, self.unsent);
        if self.dropped > 0 {
            faults.push(format!("the tester's sockets had no room for {} packets of voice", self.dropped));
        }
        if self.without_port > 0 {
            faults.push(format!("there were no free ports for the voice of {} calls", self.without_port));
        }
        faults
    }

    /// The report of these calls.
    pub fn of(codec: &str, results: &[MediaResult]) -> Self {
        let sum = |of: fn(&MediaResult) -> u64| results.iter().map(of).sum::<u64>();
        let is_silent = |result: &&MediaResult| result.received == 0;
        let each = |of: &dyn Fn(&MediaResult) -> Option<f64>| -> Option<MediaShare> {
            mean(&results.iter().filter_map(of).collect::<Vec<_>>())
        };
        let ratio = |of: &dyn Fn(&MediaResult) -> Option<(f64, f64)>| -> Option<MediaShare> {
            share(&results.iter().filter_map(of).collect::<Vec<_>>())
        };
        // If packets were sent but none was received, the score is the lowest (ITU-T G.107 Annex B: R below 0).
        let opinion = |result: &MediaResult| match &result.quality {
            Some(quality) => Some(quality.opinion),
            None => (result.received == 0 && result.expected > 0).then_some(1.0),
        };
        let missing = |result: &MediaResult| match &result.quality {
            Some(quality) => Some(quality.missing),
            None => (result.received == 0 && result.expected > 0).then_some(1.0),
        };
        Self {
            codec: codec.to_owned(),
            calls: results.len() as u64,
            silent_calls: results.iter().filter(is_silent).count() as u64,
            unknown_calls: results.iter().filter(|result| result.expected == 0).count() as u64,
            sent: sum(|result| result.sent),
            expected: sum(|result| result.expected),
            received: sum(|result| result.received),
            told_calls: results.iter().filter(|result| result.is_reported).count() as u64,
            copies: sum(|result| result.copies),
            reordered: sum(|result| result.reordered),
            stream_changes: sum(|result| result.stream_changes),
            loss: ratio(&|result| {
                (result.expected > 0).then_some((result.lost() as f64, result.expected as f64))
            }),
            loss_there: ratio(&|result| {
                result.lost_there.map(|(lost, known)| (lost.max(0) as f64, known as f64))
            }),
            missing: each(&missing).map(|share| share.within(0.0, 1.0)),
            jitter_s: each(&|result| (result.received > 0).then_some(result.jitter_s)),
            round_trip_s: each(&|result| result.round_trip_s),
            mos: each(&opinion).map(|mean| mean.within(1.0, 4.5)),
            poor_calls: results.iter().filter_map(opinion).filter(|opinion| *opinion < POOR).count() as u64,
            ..Self::default()
        }
    }
}

/// Why packets of voice were not sent as scheduled, in sentences.
pub(crate) fn sending_faults(sent: u64, late: u64, unsent: u64) -> Vec<String> {
    let mut faults = Vec::new();
    // One late packet in a hundred is allowed: the play-out buffer covers four times the lateness of 10 ms.
    if late.saturating_mul(100) > sent {
        faults.push(format!("{late} of {sent} packets of voice were sent more than 10 ms late"));
    }
    if unsent > 0 {
        faults.push(format!("the kernel refused {unsent} packets of voice"));
    }
    faults
}

/// The confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// The mean over calls with its interval. Calls are independent of each other.
fn mean(values: &[f64]) -> Option<MediaShare> {
    let interval = student(values, CONFIDENCE).ok()?;
    Some(MediaShare { value: interval.estimate, low: interval.low, high: interval.high })
}

/// A share of packets with its interval, by the ratio estimator over calls: losses within a call depend on each other.
fn share(parts: &[(f64, f64)]) -> Option<MediaShare> {
    let (lost, all) = parts.iter().fold((0.0, 0.0), |(lost, all), (own, of)| (lost + own, all + of));
    if all == 0.0 {
        return None;
    }
    let value = lost / all;
    let residuals: Vec<f64> = parts.iter().map(|(lost, all)| lost - value * all).collect();
    let interval = mean(&residuals)?;
    let per_call = all / parts.len() as f64;
    // The residuals have mean zero, so the ends of their interval are deviations from the share.
    let end = |end: Option<f64>| end.map(|end| value + end / per_call);
    Some(MediaShare { value, low: end(interval.low), high: end(interval.high) }.within(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(received: u64, expected: u64) -> MediaResult {
        MediaResult {
            sent: 100,
            received,
            expected,
            is_reported: true,
            copies: 0,
            reordered: 0,
            stream_changes: 0,
            jitter_s: 0.001,
            round_trip_s: None,
            lost_there: Some((1, 50)),
            quality: None,
        }
    }

    #[test]
    fn losses_are_of_packets_and_their_interval_is_of_calls() {
        let results = [call(98, 100), call(99, 100), call(100, 100), call(0, 0)];
        let report = MediaReport::of("pcmu", &results);
        assert_eq!((report.calls, report.silent_calls, report.expected, report.received), (4, 1, 300, 297));
        let loss = report.loss.unwrap();
        assert!((loss.value - 0.01).abs() < 1e-12);
        // Student's t with 2 degrees of freedom, 4.303: the deviation between calls is 1 %.
        assert!((loss.high.unwrap() - loss.value - 4.3027 * 0.01 / 3_f64.sqrt()).abs() < 1e-5, "{loss:?}");
        assert_eq!(loss.low, Some(0.0), "it is cut off at none");
        assert!((report.loss_there.unwrap().value - 0.02).abs() < 1e-12);
        assert_eq!(report.mos, None);
    }

    /// Half of the calls receive nothing, so half of the packets are lost.
    #[test]
    fn calls_that_hear_nothing_count_in_the_loss() {
        let results = [call(100, 100), call(0, 100), call(100, 100), call(0, 100)];
        let report = MediaReport::of("pcmu", &results);
        assert_eq!((report.silent_calls, report.poor_calls), (2, 2));
        assert!((report.loss.unwrap().value - 0.5).abs() < 1e-12);
        assert_eq!(report.mos.unwrap().value, 1.0);
    }
}
