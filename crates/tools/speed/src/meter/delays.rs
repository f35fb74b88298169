//! Delays of the path.

use netrig_probe::ClockOffset;
use netrig_stats::path;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of an echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoRound {
    /// Sending time, ns of `CLOCK_MONOTONIC`.
    pub sent: u64,
    /// Round-trip time without the time at the server, ns. `None` if the echo was lost.
    pub took_ns: Option<u64>,
    /// For an answered echo: sent here, received there, sent there, received here, ns since 1970 by the clock of each end.
    pub moments: Option<[u64; 4]>,
}

/// Tolerance between the round-trip times of an echo by the wall clocks and by the monotonic clock, ns. This end does
/// not read its two clocks at the same time.
const ASIDE: u64 = 5_000_000;

impl EchoRound {
    /// Whether no wall clock was set while the echo was in flight: the four time stamps then give the same round-trip
    /// time as the monotonic clock.
    fn is_of_one_time(&self) -> bool {
        let (Some(took), Some([sent, there, left, back])) = (self.took_ns, self.moments) else { return true };
        let told = back.wrapping_sub(sent).wrapping_sub(left.wrapping_sub(there));
        told.wrapping_sub(took).cast_signed().unsigned_abs() <= ASIDE
    }
}

/// Delays of echoes. A lost echo has an infinite delay, so a quantile covers delay and loss (RFC 7679 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Delays {
    /// Echoes sent.
    pub sent: usize,
    /// Echoes that did not come back.
    pub lost: usize,
    /// The shortest, s.
    pub least_s: Option<f64>,
    /// Median, s. Absent if the quantile is a lost echo; the same applies to the next two.
    pub p50_s: Option<f64>,
    /// 95th percentile, s.
    pub p95_s: Option<f64>,
    /// 99th percentile, s.
    pub p99_s: Option<f64>,
    /// The longest of the answered echoes, s.
    pub most_s: Option<f64>,
}

impl Delays {
    /// Round-trip delays of these echoes. Echoes during which a wall clock was set are omitted. `None` if no echo
    /// remains.
    pub fn of<'a>(rounds: impl Iterator<Item = &'a EchoRound>) -> Option<Self> {
        let told = rounds.filter(|round| round.is_of_one_time());
        Self::of_times(told.map(|round| round.took_ns.map(|nanos| nanos as f64 * 1e-9)))
    }

    /// Summarises times in seconds; a lost packet is `None`. Returns `None` if there are no times.
    pub fn of_times(times: impl Iterator<Item = Option<f64>>) -> Option<Self> {
        let all = path::Delays::new(times).ok().filter(|all| all.sent() > 0)?;
        let quantile = |p: f64| all.percentile(p).ok().flatten();
        Some(Self {
            sent: all.sent(),
            lost: all.lost(),
            least_s: all.minimum(),
            p50_s: quantile(0.5),
            p95_s: quantile(0.95),
            p99_s: quantile(0.99),
            most_s: all.maximum(),
        })
    }
}

/// Delays in each direction, within the uncertainty of the clocks of both ends.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct OneWay {
    /// From this end to the server. A lost echo counts in both directions, because the direction of the loss is not known.
    pub up: Delays,
    /// From the server to this end.
    pub down: Delays,
    /// Largest error of the delays, s. The error of one direction is that of the other with the opposite sign. Zero if
    /// both ends read one clock.
    pub bound_s: f64,
}

impl OneWay {
    /// One-way delays of these echoes, with the clock offset of the whole measurement ([`clocks`]).
    ///
    /// # Errors
    /// The reason why one-way delays are not known, as a sentence.
    pub fn of<'a>(
        rounds: impl Iterator<Item = &'a EchoRound> + Clone,
        clocks: ClockOffset,
    ) -> Result<Self, &'static str> {
        let (ahead, bound_s) = clocks.correction()?;
        let rounds = rounds.filter(|round| round.is_of_one_time());
        let way = |from: usize, offset: f64| {
            let seconds = move |moments: [u64; 4]| {
                moments[from + 1].wrapping_sub(moments[from]).cast_signed() as f64 * 1e-9 - offset
            };
            Delays::of_times(rounds.clone().map(move |round| round.moments.map(seconds)))
        };
        let ways = way(0, ahead).zip(way(2, -ahead));
        ways.map(|(up, down)| Self { up, down, bound_s }).ok_or("no echo was sent")
    }
}

/// The offset of the server's clock from this end's, from all echoes of a measurement. The echoes on the idle path give
/// the narrowest bounds.
pub fn clocks(rounds: &[EchoRound], one_clock: bool) -> ClockOffset {
    let told = rounds.iter().filter(|round| round.is_of_one_time());
    let moments: Vec<_> = told.filter_map(|round| round.moments).collect();
    match (one_clock, moments.is_empty()) {
        (true, false) => ClockOffset::Same,
        _ => ClockOffset::of(&moments),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn delays(took_ms: impl IntoIterator<Item = Option<u64>>) -> Option<Delays> {
        let round = |took: Option<u64>| EchoRound { sent: 0, took_ns: took.map(|ms| ms * MS), moments: None };
        let rounds: Vec<_> = took_ms.into_iter().map(round).collect();
        Delays::of(rounds.iter())
    }

    #[test]
    fn what_is_lost_took_longest() {
        let told = delays((1..=98).map(Some).chain([None, None])).unwrap();
        assert_eq!((told.sent, told.lost), (100, 2));
        assert_eq!([told.least_s, told.p50_s, told.p95_s], [0.001, 0.05, 0.095].map(Some));
        assert_eq!((told.p99_s, told.most_s), (None, Some(0.098)));
        assert_eq!(delays([]), None);
        assert_eq!(delays([None]).unwrap().p50_s, None);
    }

    /// An echo that takes these times, ms, on the way up, at the server and on the way down. The server's clock is
    /// ahead by `ahead` ns.
    fn round(sent_ms: u64, [up, kept, down]: [u64; 3], ahead: u64) -> EchoRound {
        let sent = 1_790_000_000_000 * MS + sent_ms * MS;
        let there = sent + ahead + up * MS;
        let moments = [sent, there, there + kept * MS, sent + (up + kept + down) * MS];
        EchoRound { sent: sent_ms * MS, took_ns: Some((up + down) * MS), moments: Some(moments) }
    }

    #[test]
    fn a_queue_shows_in_its_direction() {
        const HOUR: u64 = 3_600_000 * MS;
        // The idle path takes 2 ms up and 4 ms down. Under load, it takes 50 ms more up. The idle echoes bound the
        // clock offset by half of 6 ms.
        let idle = [round(0, [2, 1, 4], HOUR), round(20, [2, 0, 4], HOUR)];
        let loaded = [round(40, [52, 1, 4], HOUR), round(60, [52, 1, 4], HOUR)];
        let all: Vec<_> = idle.into_iter().chain(loaded).collect();
        let offset = clocks(&all, false);
        let [before, during] =
            [&all[..2], &all[2..]].map(|rounds| OneWay::of(rounds.iter(), offset).unwrap());
        assert!((before.bound_s - 0.003).abs() < 1e-6, "{before:?}");
        let added = |of: fn(&OneWay) -> Delays| of(&during).p50_s.unwrap() - of(&before).p50_s.unwrap();
        assert!((added(|ways| ways.up) - 0.05).abs() < 1e-6 && added(|ways| ways.down).abs() < 1e-6);
        // The error of the delay is within the bound.
        assert!((during.up.p50_s.unwrap() - 0.052).abs() <= during.bound_s + 1e-6);
    }

    #[test]
    fn ends_of_one_clock_know_each_direction() {
        let rounds = [round(0, [2, 1, 4], 0), EchoRound { sent: 1, took_ns: None, moments: None }];
        let ways = OneWay::of(rounds.iter(), clocks(&rounds, true)).unwrap();
        assert_eq!((ways.up.least_s, ways.down.least_s, ways.bound_s), (Some(0.002), Some(0.004), 0.0));
        assert_eq!((ways.up.lost, ways.down.lost), (1, 1));
    }

    /// The clock of this end is set by one second while one echo is in flight, and the server's clock is set while the
    /// server holds another.
    #[test]
    fn an_echo_of_two_times_is_no_delay() {
        const STEP: u64 = 1_000 * MS;
        let whole = round(0, [2, 1, 4], 0);
        let [sent, there, left, back] = whole.moments.unwrap();
        for step in [STEP, 0_u64.wrapping_sub(STEP)] {
            let moments =
                [[sent, there, left, back.wrapping_add(step)], [sent, there, left.wrapping_add(step), back]];
            let kept = moments[1][2].saturating_sub(there);
            let took = [6 * MS, (7 * MS).saturating_sub(kept)];
            let torn =
                [0, 1].map(|n| EchoRound { sent: 1, took_ns: Some(took[n]), moments: Some(moments[n]) });
            let all = [whole, torn[0], torn[1]];
            let told = Delays::of(all.iter()).unwrap();
            assert_eq!((told.sent, told.lost, told.most_s), (1, 0, Some(0.006)), "{all:?}");
            let ways = OneWay::of(all.iter(), clocks(&all, true)).unwrap();
            assert_eq!((ways.up.most_s, ways.down.most_s), (Some(0.002), Some(0.004)), "{all:?}");
        }
    }

    #[test]
    fn clocks_that_moved_tell_no_direction() {
        let rounds = [round(0, [2, 0, 2], 0), round(20, [2, 0, 2], 50 * MS)];
        assert!(OneWay::of(rounds.iter(), clocks(&rounds, false)).unwrap_err().contains("changed"));
        assert!(OneWay::of([].iter(), clocks(&[], true)).is_err());
    }
}
