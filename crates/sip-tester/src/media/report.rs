//! What became of the media of all calls.

use netrig_stats::interval::student;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::MediaResult;

/// A share with the interval that holds it in 95 of 100 cases.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaShare {
    /// The share, or the mean.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The media of all calls.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MediaReport {
    /// Codec.
    pub codec: String,
    /// Calls with media.
    pub calls: u64,
    /// Of them, those to which nothing came.
    pub silent_calls: u64,
    /// Calls whose other side wanted media that the tester does not have, such as SRTP.
    pub unsupported_calls: u64,
    /// Calls for which there was no free port.
    pub without_port: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the other sides sent: as they say at their end, else by their numbers.
    pub expected: u64,
    /// Packets received, each once.
    pub received: u64,
    /// Calls whose other side said at its end how many it sent.
    pub told_calls: u64,
    /// Packets that came twice.
    pub copies: u64,
    /// Packets that came behind one that was sent later.
    pub reordered: u64,
    /// Packets that were sent more than 10 ms late by the tester.
    pub late: u64,
    /// Packets that the kernel did not take.
    pub unsent: u64,
    /// Packets that the tester's sockets had no room for.
    pub dropped: u64,
    /// Share of packets that did not reach the tester, by the differences between calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<MediaShare>,
    /// Share of the tester's packets that did not reach the other side, as that says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_there: Option<MediaShare>,
    /// Share of packets that were missing when they were to be played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<MediaShare>,
    /// Interarrival jitter, s (RFC 3550): the mean over calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<MediaShare>,
    /// Round-trip time, s, by RTCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_s: Option<MediaShare>,
    /// Mean opinion score of ITU-T G.107, 1 to 4.5: the mean over calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mos: Option<MediaShare>,
    /// Calls whose score is below 3.6, at which many users are dissatisfied (ITU-T G.109).
    pub poor_calls: u64,
}

/// The score below which many users are dissatisfied (ITU-T G.109, R = 70).
const POOR: f64 = 3.6;

impl MediaReport {
    /// Why what was measured must not be put down to the network, in sentences.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        // One packet of a hundred may be late: the play-out buffer is four times as long.
        if self.late * 100 > self.sent {
            faults.push(format!(
                "{} of {} packets of voice were sent more than 10 ms late",
                self.late, self.sent
            ));
        }
        if self.unsent > 0 {
            faults.push(format!("the kernel did not take {} packets of voice", self.unsent));
        }
        if self.dropped > 0 {
            faults.push(format!("the tester's sockets had no room for {} packets of voice", self.dropped));
        }
        if self.without_port > 0 {
            faults.push(format!("there were no free ports for the voice of {} calls", self.without_port));
        }
        faults
    }

    /// Of these calls.
    pub fn of(codec: &str, results: &[MediaResult]) -> Self {
        let sum = |of: fn(&MediaResult) -> u64| results.iter().map(of).sum::<u64>();
        let heard: Vec<&MediaResult> = results.iter().filter(|result| result.received > 0).collect();
        let each = |of: &dyn Fn(&MediaResult) -> Option<f64>| -> Option<MediaShare> {
            mean(&heard.iter().filter_map(|result| of(result)).collect::<Vec<_>>())
        };
        let ratio = |of: &dyn Fn(&MediaResult) -> Option<(f64, f64)>| -> Option<MediaShare> {
            share(&heard.iter().filter_map(|result| of(result)).collect::<Vec<_>>())
        };
        let opinions = heard.iter().filter_map(|result| Some(result.quality.as_ref()?.opinion));
        Self {
            codec: codec.to_owned(),
            calls: results.len() as u64,
            silent_calls: (results.len() - heard.len()) as u64,
            sent: sum(|result| result.sent),
            expected: sum(|result| result.expected),
            received: sum(|result| result.received),
            told_calls: results.iter().filter(|result| result.is_told).count() as u64,
            copies: sum(|result| result.copies),
            reordered: sum(|result| result.reordered),
            loss: ratio(&|result| Some((result.lost() as f64, result.expected as f64))),
            loss_there: ratio(&|result| {
                result.lost_there.map(|(lost, known)| (lost.max(0) as f64, known as f64))
            }),
            missing: each(&|result| Some(result.quality.as_ref()?.missing)),
            jitter_s: each(&|result| Some(result.jitter_s)),
            round_trip_s: each(&|result| result.round_trip_s),
            mos: each(&|result| Some(result.quality.as_ref()?.opinion)),
            poor_calls: opinions.filter(|opinion| *opinion < POOR).count() as u64,
            ..Self::default()
        }
    }
}

/// The confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// The mean over calls, which are independent of each other.
fn mean(values: &[f64]) -> Option<MediaShare> {
    let interval = student(values, CONFIDENCE).ok()?;
    let value = interval.estimate;
    Some(MediaShare { value, low: interval.low.unwrap_or(value), high: interval.high.unwrap_or(value) })
}

/// A share of packets: the losses of one call depend on each other, so it is the ratio estimator over calls.
fn share(parts: &[(f64, f64)]) -> Option<MediaShare> {
    let (lost, all) = parts.iter().fold((0.0, 0.0), |(lost, all), (own, of)| (lost + own, all + of));
    if all == 0.0 {
        return None;
    }
    let value = lost / all;
    let residuals: Vec<f64> = parts.iter().map(|(lost, all)| lost - value * all).collect();
    let interval = mean(&residuals)?;
    let half = (interval.high - interval.low) / 2.0 / (all / parts.len() as f64);
    Some(MediaShare { value, low: (value - half).max(0.0), high: (value + half).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(received: u64, expected: u64) -> MediaResult {
        MediaResult {
            sent: 100,
            received,
            expected,
            is_told: true,
            copies: 0,
            reordered: 0,
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
        assert!((loss.high - loss.value - 4.3027 * 0.01 / 3_f64.sqrt()).abs() < 1e-5, "{loss:?}");
        assert_eq!(loss.low, 0.0, "it is cut off at none");
        assert!((report.loss_there.unwrap().value - 0.02).abs() < 1e-12);
        assert_eq!(report.mos, None);
    }
}
