//! Measurements in parallel with the phases: continuous echoes, and responsiveness probes under load.

use std::cell::Cell;
use std::io;

use netrig_core::Duration;
use netrig_host::HostAddress;
use netrig_probe::ClockOffset;

use super::call::{CallOrder, SpeedCall};
use super::latency::Latency;
use super::probing::Probing;
use super::progress::MeasureProgress;
use crate::meter::{Delays, EchoRound, OneWay, clocks};
use crate::protocol::{ConnectionCounts, DataDirection};
use crate::responsiveness::{ForeignProbe, Responsiveness};

/// Before this time, the rate of a phase is not used, s.
const BEGINNING_S: f64 = 0.5;

/// The assumed ratio of upload to download capacity until the upload is known: few lines are more asymmetric (RFC 3449
/// section 2.1). Until the download is known, it is assumed to equal the upload.
const LEAST_UP: f64 = 1.0 / 25.0;

/// Running echoes and probes.
#[derive(Debug)]
pub(super) struct PathObserver {
    latency: Latency,
    probing: Option<Probing>,
    one_clock: bool,
    /// Capacity of each direction, down and up, bit/s, `None` until a phase has shown it.
    known: Cell<[Option<f64>; 2]>,
}

impl PathObserver {
    /// Starts the echoes and, if `responsive`, the thread of the probes.
    ///
    /// # Errors
    /// If the kernel refuses a socket or a thread.
    pub(super) fn begin(
        call: &SpeedCall,
        order: &CallOrder,
        every: Duration,
        responsive: bool,
    ) -> io::Result<Self> {
        let ([client, server], budget) = (call.ends(), call.budget());
        let latency = Latency::begin(HostAddress::from(client).at(0), server, budget.token, every)?;
        let probing = if responsive { Some(Probing::begin(order.clone())?) } else { None };
        let known = Cell::default();
        Ok(Self { latency, probing, one_clock: call.reads_our_clock(), known })
    }

    /// Uses the received bytes of connections to limit the echoes and probes to a share of their rate, and to a share
    /// of the capacity of the other direction.
    pub(super) fn watch(&self, progress: &MeasureProgress) {
        if let MeasureProgress::Arrived { at_s, bytes, way } = progress
            && *at_s >= BEGINNING_S
        {
            let full = *bytes as f64 * 8.0 / at_s;
            let [down, up] = self.known.get();
            let carried = match way {
                DataDirection::Up => [down.unwrap_or(full), full],
                DataDirection::Down | DataDirection::Both => [full, up.unwrap_or(LEAST_UP * full)],
            };
            self.latency.carries(carried);
            if let Some(probing) = &self.probing {
                probing.carries(*way, carried);
            }
        }
    }

    /// Sets the known capacity of a direction, bit/s.
    pub(super) fn knows(&self, way: DataDirection, bits_per_s: f64) {
        let [down, up] = self.known.get();
        let known = match way {
            DataDirection::Down => [Some(bits_per_s), up],
            DataDirection::Up => [down, Some(bits_per_s)],
            DataDirection::Both => [Some(bits_per_s); 2],
        };
        self.known.set(known);
        self.latency.carries(known.map(|known| known.unwrap_or(f64::INFINITY)));
    }

    /// Stops new probes, because the load has ended.
    pub(super) fn pause(&self) {
        self.latency.idles();
        if let Some(probing) = &self.probing {
            probing.pause();
        }
    }

    /// Stops the echoes and the probes.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn end(self) -> io::Result<PathObservations> {
        let rounds = self.latency.end()?;
        let probes = self.probing.map(Probing::end).transpose()?;
        let clocks = clocks(&rounds, self.one_clock);
        Ok(PathObservations { rounds, probes, clocks })
    }
}

/// The echoes and probes of a measurement. A span has a start and an end, ns of `CLOCK_MONOTONIC`. The first
/// `without_s` seconds of a span are omitted.
#[derive(Debug)]
pub(super) struct PathObservations {
    pub(super) rounds: Vec<EchoRound>,
    /// `None` if responsiveness was not ordered.
    probes: Option<Vec<ForeignProbe>>,
    clocks: ClockOffset,
}

impl PathObservations {
    /// No observations, for a server that does not send echoes back.
    pub(super) fn nothing() -> Self {
        Self { rounds: Vec::new(), probes: None, clocks: ClockOffset::of(&[]) }
    }

    /// The echoes that were sent in a span.
    pub(super) fn within(
        &self,
        [begun, ended]: [u64; 2],
        without_s: f64,
    ) -> impl Iterator<Item = &EchoRound> + Clone {
        let from = begun + (without_s * 1e9) as u64;
        self.rounds.iter().filter(move |round| (from..=ended).contains(&round.sent))
    }

    /// The echoes that came back between these two times.
    pub(super) fn came_back_within(&self, [from, until]: [u64; 2]) -> impl Iterator<Item = &EchoRound> {
        let came = |round: &EchoRound| Some(round.sent.saturating_add(round.took_ns?));
        self.rounds.iter().filter(move |round| came(round).is_some_and(|at| at > from && at <= until))
    }

    /// Round-trip delays in a span.
    pub(super) fn delays(&self, span: [u64; 2], without_s: f64) -> Option<Delays> {
        Delays::of(self.within(span, without_s))
    }

    /// One-way delays in a span.
    pub(super) fn ways(&self, span: [u64; 2], without_s: f64) -> Option<OneWay> {
        OneWay::of(self.within(span, without_s), self.clocks).ok()
    }

    /// Why one-way delays are not known. `None` if they are known.
    pub(super) fn no_ways(&self) -> Option<&'static str> {
        self.clocks.correction().err()
    }

    /// Responsiveness in a span, with the counts of the sender's connections. The second value is the reason if
    /// responsiveness was ordered but could not be computed.
    pub(super) fn responsiveness(
        &self,
        sender: &[ConnectionCounts],
        span: [u64; 2],
        without_s: f64,
    ) -> (Option<Responsiveness>, Option<&'static str>) {
        let Some(probes) = &self.probes else { return (None, None) };
        let told = Responsiveness::of_phase(probes, sender, span, without_s);
        let why = match &told {
            None => Some(
                "no probe on a new connection started and finished after the warm-up: probes use up to a twentieth of the \
                 line, and a slow line has room for few",
            ),
            Some(told) if told.loaded.is_none() => {
                Some("no data of the loading connections was acknowledged after the warm-up")
            }
            Some(told) if told.rpm.both.is_none() => {
                Some("more than one of twenty probes on new connections did not finish")
            }
            Some(_) => None,
        };
        (told, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a queue of 4.7 s, echoes of the first second come back after the span.
    #[test]
    fn echoes_take_of_the_line_what_comes_back_in_a_time() {
        let round = |n: u64, took_s: Option<u64>| EchoRound {
            sent: n * 20_000_000,
            took_ns: took_s.map(|seconds| seconds * 1_000_000_000),
            moments: None,
        };
        let rounds = (0..50).map(|n| round(n, Some(4))).chain((50..100).map(|n| round(n, None))).collect();
        let watched = PathObservations { rounds, ..PathObservations::nothing() };
        let count = |from_s: u64, until_s: u64| {
            watched.came_back_within([from_s, until_s].map(|seconds| seconds * 1_000_000_000)).count()
        };
        assert_eq!((count(0, 2), count(3, 5), count(5, 9)), (0, 50, 0));
    }

    #[test]
    fn a_number_is_left_out_with_a_reason() {
        const MS: u64 = 1_000_000;
        let of = |parts_ns, acknowledged| {
            let probes = Some(vec![ForeignProbe { begun: 2000 * MS, parts_ns }]);
            let watched = PathObservations { probes, ..PathObservations::nothing() };
            let srtt_ns = Some(90 * MS);
            let counted =
                ConnectionCounts { at_ns: 2000 * MS, srtt_ns, acknowledged, ..ConnectionCounts::default() };
            move |span| watched.responsiveness(&[counted], span, 0.5)
        };
        let whole = [1000 * MS, 4000 * MS];
        let parts = Some([100 * MS; 3]);
        let (told, why) = of(parts, Some(1448))(whole);
        assert!(told.is_some_and(|told| told.rpm.both.is_some()) && why.is_none());
        for (of, span, says) in [
            (of(parts, Some(1448)), [2001 * MS, 4000 * MS], "no probe on a new connection"),
            (of(parts, Some(0)), whole, "no data of the loading connections was acknowledged"),
            (of(None, Some(1448)), whole, "did not finish"),
        ] {
            let (told, why) = of(span);
            assert!(why.is_some_and(|why| why.contains(says)), "{why:?} is not: {says}");
            assert!(told.is_none_or(|told| told.rpm.both.is_none()));
        }
        // Responsiveness was not ordered, so there is no reason.
        assert_eq!(PathObservations::nothing().responsiveness(&[], whole, 0.0), (None, None));
    }
}
