//! Path metrics as sections of a report.

use netrig_stats::path::{Delays, Duplication, LossPattern, Reordering, Variation};

use super::error::ProbeResult;
use super::offset::ClockOffset;
use super::report::{CONFIDENCE, Measure, Section};
use super::two_way::ProbeCourse;

/// Reported quantiles and their names. The last is reported if there are at least 1000 packets.
const QUANTILES: [(f64, &str); 4] =
    [(0.5, "delay_p50"), (0.9, "delay_p90"), (0.99, "delay_p99"), (0.999, "delay_p999")];

/// A loss is noticeable if another packet was lost at most this many packets before (RFC 3357 section 6.1).
const NOTICEABLE: u64 = 10;

/// Number of duplicate acknowledgements after which a TCP sender assumes a loss (RFC 5681 section 3.2).
const TCP_THRESHOLD: u64 = 3;

/// The two sections of a two-way measurement: the round-trip time, in which a lost packet counts as infinitely late,
/// and loss and order.
pub(super) fn round_trip(course: &ProbeCourse, delays: &[Option<f64>]) -> ProbeResult<[Section; 2]> {
    let mut delay = Section::new("round_trip");
    delay_and_loss(&mut delay, &Delays::new(delays.iter().copied())?)?;
    variation(&mut delay, delays)?;
    let mut pattern = Section::new("pattern");
    loss_pattern(&mut pattern, delays.iter().map(Option::is_none));
    order(&mut pattern, &course.arrivals);
    Ok([delay, pattern])
}

/// Adds the number of packets and of losses.
pub(super) fn loss(section: &mut Section, delays: &Delays) -> ProbeResult {
    let n = delays.sent();
    section.push(Measure::exact("packets", "packets", Some(n as f64), n));
    if n > 0 {
        section.push(Measure::exact("lost", "packets", Some(delays.lost() as f64), n));
        section.push(Measure::interval("loss_ratio", "1", &delays.loss_ratio(CONFIDENCE)?));
    }
    Ok(())
}

/// Adds the loss ratio, and quantiles of delay in which a lost packet counts as infinitely late.
pub(super) fn delay_and_loss(section: &mut Section, delays: &Delays) -> ProbeResult {
    loss(section, delays)?;
    delay(section, delays)
}

/// Adds quantiles of delay in which a lost packet counts as infinitely late.
fn delay(section: &mut Section, delays: &Delays) -> ProbeResult {
    let n = delays.sent();
    if n == 0 {
        section.push(Measure::undefined("delay_p50", "s", "no packet was available for the measurement"));
        return Ok(());
    }
    section.push(Measure::exact("delay_min", "s", delays.minimum(), n));
    for (p, name) in QUANTILES {
        if p < 0.999 || n >= 1000 {
            section.push(Measure::quantile(name, "s", &delays.quantile(p, CONFIDENCE)?, n));
        }
    }
    section.push(Measure::exact("delay_mean_of_arrived", "s", delays.mean(), delays.arrived().len()));
    section.push(Measure::exact("delay_max_of_arrived", "s", delays.maximum(), delays.arrived().len()));
    Ok(())
}

/// Adds the one-way delay, in which a lost packet counts as infinitely late, if the offset of the clocks is known (RFC
/// 7679 section 3.7). The intervals include the uncertainty of the quantile and of the clocks.
pub(super) fn one_way_delay(
    section: &mut Section,
    raw: &[Option<f64>],
    offset: &ClockOffset,
    sign: f64,
) -> ProbeResult {
    let (ahead, bound) = match offset.correction() {
        Ok(correction) => correction,
        Err(why) => {
            section.push(Measure::undefined("delay_p50", "s", why));
            return Ok(());
        }
    };
    let delays = Delays::new(raw.iter().map(|raw| raw.map(|raw| raw - sign * ahead)))?;
    let first = section.measures.len();
    delay(section, &delays)?;
    if bound > 0.0 {
        // The uncertainty of the clocks widens the interval. An end of an interval that is `None` stays `None`.
        for measure in &mut section.measures[first..] {
            let exact =
                measure.low.is_none() && measure.high.is_none() && !measure.name.starts_with("delay_p");
            let ends = if exact { [measure.value; 2] } else { [measure.low, measure.high] };
            measure.low = ends[0].map(|low| low - bound);
            measure.high = ends[1].map(|high| high + bound);
        }
    }
    Ok(())
}

/// Adds the delay variation, which does not depend on the clocks' offset.
pub(super) fn variation(section: &mut Section, raw: &[Option<f64>]) -> ProbeResult {
    let variation = Variation::new(raw)?;
    let pairs = variation.inter_packet().len();
    section.push(Measure::exact("jitter", "s", variation.jitter(), pairs));
    section.push(Measure::exact("ipdv_peak_to_peak", "s", variation.peak_to_peak(), pairs));
    if variation.packet().sent() > 0 {
        let p99 = variation.packet().quantile(0.99, CONFIDENCE)?;
        section.push(Measure::quantile("pdv_p99", "s", &p99, variation.packet().sent()));
    }
    Ok(())
}

/// Adds the loss pattern, which shows whether losses come in bursts (RFC 3357).
pub(super) fn loss_pattern(section: &mut Section, lost: impl IntoIterator<Item = bool>) {
    let pattern = LossPattern::new(lost);
    let (periods, losses) = (pattern.periods().len(), pattern.lost() as usize);
    section.push(Measure::exact("loss_periods", "1", Some(periods as f64), pattern.sent()));
    if losses == 0 {
        return;
    }
    let longest = pattern.periods().iter().max().map(|longest| *longest as f64);
    section.push(Measure::exact("loss_period_mean", "packets", pattern.mean_period(), periods));
    section.push(Measure::exact("loss_period_max", "packets", longest, periods));
    section.push(Measure::exact("loss_noticeable_rate", "1", pattern.noticeable_rate(NOTICEABLE), losses));
    section.push(Measure::exact("loss_burst_ratio", "1", pattern.burst_ratio(), losses));
}

/// Adds the reordering (RFC 4737) and duplication (RFC 5560) of the arrivals.
pub(super) fn order(section: &mut Section, arrivals: &[u64]) {
    let reordering = Reordering::new(arrivals.iter().copied());
    let n = reordering.arrived();
    section.push(Measure::exact("reordered_ratio", "1", reordering.ratio(), n));
    if let Some(extent) = reordering.largest_extent() {
        section.push(Measure::exact(
            "reordering_extent_max",
            "packets",
            Some(extent as f64),
            reordering.reordered().len(),
        ));
        section.push(Measure::exact(
            "reordered_by_3_ratio",
            "1",
            reordering.n_reordered_ratio(TCP_THRESHOLD),
            n,
        ));
        let runs = reordering.runs();
        let mean = runs.iter().sum::<u64>() as f64 / runs.len() as f64;
        section.push(Measure::exact("reordering_free_run_mean", "packets", Some(mean), runs.len()));
    }
    let duplication = Duplication::new(arrivals.iter().copied());
    section.push(Measure::exact("duplication_fraction", "1", duplication.fraction(), n));
    section.push(Measure::exact("replicated_rate", "1", duplication.replicated_rate(), n));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_clocks_leave_open_widens_every_interval() {
        let raw: Vec<_> = (1..=100).map(|n| Some(f64::from(n))).collect();
        let section = |offset| {
            let mut section = Section::new("there");
            one_way_delay(&mut section, &raw, &offset, 1.0).unwrap();
            section.measures
        };
        let (known, bounded) =
            (section(ClockOffset::Same), section(ClockOffset::Bounded { ahead: 10.0, bound: 2.0 }));
        for (known, bounded) in known.iter().zip(&bounded) {
            assert_eq!(bounded.value, known.value.map(|value| value - 10.0), "{}", known.name);
            assert_eq!(bounded.low.is_some(), known.low.is_some() || !known.name.starts_with("delay_p"));
            assert!(known.low.is_none_or(|low| bounded.low == Some(low - 12.0)));
            assert!(known.high.is_none_or(|high| bounded.high == Some(high - 8.0)));
        }
        let minimum = bounded.iter().find(|measure| measure.name == "delay_min").unwrap();
        assert_eq!((minimum.low, minimum.high), (Some(-11.0), Some(-7.0)));
    }

    #[test]
    fn without_a_bound_on_the_clocks_one_way_delay_is_undefined() {
        let mut section = Section::new("there");
        one_way_delay(&mut section, &[Some(1.0)], &ClockOffset::Unknown, 1.0).unwrap();
        let [measure] = &section.measures[..] else { panic!() };
        assert!(measure.value.is_none() && measure.undefined.is_some());
        variation(&mut section, &[Some(1.0), Some(3.0)]).unwrap();
        let jitter = section.measures.iter().find(|measure| measure.name == "jitter").unwrap();
        assert_eq!(jitter.value, Some(2.0), "variation needs no clock");
    }
}
