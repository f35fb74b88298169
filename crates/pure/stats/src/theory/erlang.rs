//! Erlang's formulas for a group of servers.
//!
//! Source: Kleinrock, *Queueing Systems*, volume 1 (1975), sections 3.5 and 3.7; the recursion: Jagerman
//! (1974), *Some properties of the Erlang loss function*.

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::{TheoryError, not_negative, positive, size, stable};

/// Erlang B: the share of calls that are blocked if a Poisson load of `offered_erlang` is offered to `servers` servers
/// without a queue. The service times may have any distribution. The offered load in Erlang is calls per second times
/// mean holding time in seconds.
///
/// # Errors
/// An offered load that is negative or not finite, or more than ten million servers.
pub fn blocking(offered_erlang: f64, servers: u32) -> Result<f64, TheoryError> {
    let offered = not_negative("offered_erlang", offered_erlang)?;
    let servers = size("servers", servers)?;
    // Without a server all calls are blocked. Each further server reduces the share, so no value overflows.
    Ok((1..=servers).fold(1.0, |blocked, line| offered * blocked / (f64::from(line) + offered * blocked)))
}

/// Erlang C: the share of calls that wait in M/M/c, a group of `servers` with an unlimited queue and exponential
/// service.
///
/// # Errors
/// As [`blocking`]; also no server, or an offered load that is not below the number of servers.
pub fn waiting_probability(offered_erlang: f64, servers: u32) -> Result<f64, TheoryError> {
    let blocked = blocking(offered_erlang, servers)?;
    let load = stable(offered_erlang / positive("servers", f64::from(servers))?)?;
    Ok(blocked / (1.0 - load * (1.0 - blocked)))
}

/// The mean waiting time of all calls in M/M/c, in seconds, at a mean holding time of `holding_s`.
///
/// # Errors
/// As [`waiting_probability`], or a holding time that is not positive.
pub fn mean_waiting_s(offered_erlang: f64, servers: u32, holding_s: f64) -> Result<f64, TheoryError> {
    let holding_s = positive("holding_s", holding_s)?;
    Ok(waiting_probability(offered_erlang, servers)? * holding_s / (f64::from(servers) - offered_erlang))
}

const OFFERED: CurveParameter =
    CurveParameter::required("offered_erlang", "1", "calls per second times mean holding time in seconds");
const SERVERS: CurveParameter = CurveParameter::required("servers", "1", "lines or servers in the group");
const HOLDING: CurveParameter = CurveParameter::required("holding_s", "s", "mean holding time");

fn group(a: &Arguments) -> Result<(f64, u32), TheoryError> {
    Ok((a.get("offered_erlang")?, a.count("servers", 1)?))
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "erlang_b",
        title: "Erlang B blocking",
        parameters: &[OFFERED, SERVERS],
        unit: "1",
        source: "Erlang (1917)",
        formula: |a| group(a).and_then(|(offered, servers)| blocking(offered, servers)),
    },
    TheoryCurve {
        name: "erlang_c",
        title: "Erlang C probability of waiting",
        parameters: &[OFFERED, SERVERS],
        unit: "1",
        source: "Erlang (1917)",
        formula: |a| group(a).and_then(|(offered, servers)| waiting_probability(offered, servers)),
    },
    TheoryCurve {
        name: "erlang_c_waiting",
        title: "Erlang C mean waiting",
        parameters: &[OFFERED, SERVERS, HOLDING],
        unit: "s",
        source: "Erlang (1917)",
        formula: |a| {
            let (offered, servers) = group(a)?;
            mean_waiting_s(offered, servers, a.get("holding_s")?)
        },
    },
];
