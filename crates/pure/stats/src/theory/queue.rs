//! Single-server queues: M/M/1, M/G/1 (with M/D/1), M/M/1/K, and two kinds of tandem.
//!
//! All assume Poisson arrivals, independent service times, first come first served, and the steady state. *Waiting* is
//! the time before service, and *sojourn* is waiting plus service. *In system* includes the customer in service.
//! Source: Kleinrock, *Queueing Systems*, volume 1 (1975): chapter 3 (M/M/1, M/M/1/K), sections 4.8 (tandem) and 5.6
//! (M/G/1).

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::{TheoryError, not_negative, positive, size, stable};

/// M/G/1: Poisson arrivals, any service time distribution, one server, unlimited queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mg1 {
    arrivals_per_s: f64,
    service_mean_s: f64,
    service_scv: f64,
}

impl Mg1 {
    /// `service_scv` is the service time's squared coefficient of variation (variance over squared mean): 0
    /// for constant, 1 for exponential.
    ///
    /// # Errors
    /// A parameter out of range, or a load of 1 or more.
    pub fn new(arrivals_per_s: f64, service_mean_s: f64, service_scv: f64) -> Result<Self, TheoryError> {
        let arrivals_per_s = not_negative("arrivals_per_s", arrivals_per_s)?;
        let service_mean_s = positive("service_mean_s", service_mean_s)?;
        let service_scv = not_negative("service_scv", service_scv)?;
        stable(arrivals_per_s * service_mean_s)?;
        Ok(Self { arrivals_per_s, service_mean_s, service_scv })
    }

    /// M/D/1: constant service time, such as packets of one size on a line.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn constant(arrivals_per_s: f64, service_s: f64) -> Result<Self, TheoryError> {
        Self::new(arrivals_per_s, service_s, 0.0)
    }

    /// The share of time in which the server is busy.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.arrivals_per_s * self.service_mean_s
    }

    /// Mean waiting time, by Pollaczek and Khinchine: load / (1 - load) (1 + scv) / 2 service times.
    #[must_use]
    pub fn waiting_s(&self) -> f64 {
        let load = self.load();
        load / (1.0 - load) * 0.5 * (1.0 + self.service_scv) * self.service_mean_s
    }

    /// Mean time from arrival to departure.
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        self.waiting_s() + self.service_mean_s
    }

    /// Mean number in system, by Little's law.
    #[must_use]
    pub fn number_in_system(&self) -> f64 {
        self.arrivals_per_s * self.sojourn_s()
    }
}

/// M/M/1: Poisson arrivals, exponential service, one server, unlimited queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mm1 {
    arrivals_per_s: f64,
    services_per_s: f64,
}

impl Mm1 {
    /// # Errors
    /// A parameter out of range, or a load of 1 or more.
    pub fn new(arrivals_per_s: f64, services_per_s: f64) -> Result<Self, TheoryError> {
        let arrivals_per_s = not_negative("arrivals_per_s", arrivals_per_s)?;
        let services_per_s = positive("services_per_s", services_per_s)?;
        stable(arrivals_per_s / services_per_s)?;
        Ok(Self { arrivals_per_s, services_per_s })
    }

    /// The share of time in which the server is busy.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.arrivals_per_s / self.services_per_s
    }

    /// Mean time from arrival to the start of service.
    #[must_use]
    pub fn waiting_s(&self) -> f64 {
        self.load() * self.sojourn_s()
    }

    /// Mean time from arrival to departure: 1 / (services - arrivals).
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        1.0 / (self.services_per_s - self.arrivals_per_s)
    }

    /// Mean number in system.
    #[must_use]
    pub fn number_in_system(&self) -> f64 {
        self.arrivals_per_s * self.sojourn_s()
    }
}

/// M/M/1/K: as M/M/1, but an arrival is lost if `places` customers are in the system, including the customer in
/// service. Valid for any load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mm1k {
    arrivals_per_s: f64,
    services_per_s: f64,
    loss: f64,
    number: f64,
}

impl Mm1k {
    /// # Errors
    /// A parameter out of range; `places` must be from 1 to ten million.
    pub fn new(arrivals_per_s: f64, services_per_s: f64, places: u32) -> Result<Self, TheoryError> {
        let arrivals_per_s = not_negative("arrivals_per_s", arrivals_per_s)?;
        let services_per_s = positive("services_per_s", services_per_s)?;
        positive("places", f64::from(places))?;
        let places = size("places", places)?;
        let load = arrivals_per_s / services_per_s;
        // The recursion over places is exact at any load. The closed formula (1 - load) load^K / (1 - load^(K+1)) is
        // 0/0 at a load of 1.
        let (mut loss, mut number) = (1.0, 0.0);
        for place in 1..=places {
            loss = load * loss / (1.0 + load * loss);
            number = number * (1.0 - loss) + f64::from(place) * loss;
        }
        Ok(Self { arrivals_per_s, services_per_s, loss, number })
    }

    /// The share of lost arrivals.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.loss
    }

    /// Mean number in system.
    #[must_use]
    pub fn number_in_system(&self) -> f64 {
        self.number
    }

    /// Mean time from arrival to departure of customers that are not lost, by Little's law.
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        let accepted_per_s = self.arrivals_per_s * (1.0 - self.loss);
        if accepted_per_s > 0.0 { self.number / accepted_per_s } else { 1.0 / self.services_per_s }
    }
}

/// M/M/1 queues in series. The departures of a station are a Poisson process and the arrivals of the next station
/// (Burke 1956). Service times at different stations are independent (Kleinrock's independence assumption).
#[derive(Debug, Clone, PartialEq)]
pub struct Tandem {
    stations: Vec<Mm1>,
}

impl Tandem {
    /// # Errors
    /// No station, a parameter out of range, or a load of 1 or more at a station.
    pub fn new(arrivals_per_s: f64, services_per_s: &[f64]) -> Result<Self, TheoryError> {
        positive("stations", services_per_s.len() as f64)?;
        let stations =
            services_per_s.iter().map(|s| Mm1::new(arrivals_per_s, *s)).collect::<Result<_, _>>()?;
        Ok(Self { stations })
    }

    /// Mean time from the arrival at the first station to the departure from the last one.
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        self.stations.iter().map(Mm1::sojourn_s).sum()
    }

    /// Mean number of customers in all stations together.
    #[must_use]
    pub fn number_in_system(&self) -> f64 {
        self.stations.iter().map(Mm1::number_in_system).sum()
    }
}

/// Two equal lines in series. Packets keep their sizes, so the first line is M/M/1, and at the second line each
/// customer has the same service time as at the first.
///
/// Exact (Boxma 1979, *On a tandem queueing model with identical service times at both counters*, Advances in
/// Applied Probability 11). Let B be a service time, I_n the idle time of the first server before customer n, and S_n the
/// n-th sojourn at the second. Departures of the first server are B_n + I_n apart, so
///
/// S_n = B_n + max(0, S_(n-1) - B_n - I_n) = max(B_n, S_(n-1) - I_n):
///
/// the longest service up to now, minus the idle time since then. S_n is at most t under two conditions. No service of
/// the current busy period up to customer n is longer than t. No earlier busy period has a service longer than t plus
/// the idle time since its end. In idle time, busy periods are a Poisson process of rate λ. Let π(t) be the probability
/// that a busy period has no service beyond t: π(t) = E[exp(-λ(1 - π)B); B <= t]. A busy period has 1/(1 - ρ) customers
/// on average. Of these, (1 - π)/(1 - P(B <= t)) customers have no service longer than t before them. Hence
///
/// P(S <= t) = (1 - ρ) P(B <= t) (1 - π(t))/(1 - P(B <= t)) exp(-λ ∫_t^∞ (1 - π(u)) du).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EqualLines {
    first: Mm1,
}

impl EqualLines {
    /// # Errors
    /// As [`Mm1::new`].
    pub fn new(arrivals_per_s: f64, services_per_s: f64) -> Result<Self, TheoryError> {
        Ok(Self { first: Mm1::new(arrivals_per_s, services_per_s)? })
    }

    /// Mean time from arrival at the second line to departure, to six digits.
    #[must_use]
    pub fn second_sojourn_s(&self) -> f64 {
        // All times are in units of the mean service time. The tail of S beyond 60 service times is negligible at any
        // measurable load.
        const STEP: f64 = 0.005;
        const STEPS: u32 = 12_000;
        let load = self.first.load();
        let (mut later, mut q_after, mut tail_after, mut mean) = (0.0, 0.0, 0.0, 0.0);
        for step in (0..=STEPS).rev() {
            let t = f64::from(step) * STEP;
            let q = longer(load, t);
            later += 0.5 * STEP * (q + q_after);
            let all = (1.0 - load) * -libm::expm1(-t) * q * libm::exp(t - load * later);
            if step < STEPS {
                mean += 0.5 * STEP * (1.0 - all + tail_after);
            }
            (q_after, tail_after) = (q, 1.0 - all);
        }
        mean / self.first.services_per_s
    }

    /// Mean time from arrival at the second line to the start of service.
    #[must_use]
    pub fn second_waiting_s(&self) -> f64 {
        self.second_sojourn_s() - 1.0 / self.first.services_per_s
    }

    /// Mean time through both lines.
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        self.first.sojourn_s() + self.second_sojourn_s()
    }
}

/// The probability 1 - π that a busy period of M/M/1 has a service longer than `t` mean service times: the largest root
/// of q = (ρq + exp(-(1 + ρq) t)) / (1 + ρq). The iteration starts at 1 and approaches the root from above.
fn longer(load: f64, t: f64) -> f64 {
    let mut q = 1.0;
    loop {
        let rate = 1.0 + load * q;
        let next = (load * q + libm::exp(-rate * t)) / rate;
        if q - next <= 1e-13 * q {
            return next;
        }
        q = next;
    }
}

pub(super) const ARRIVALS: CurveParameter =
    CurveParameter::required("arrivals_per_s", "1/s", "Poisson arrivals per second");
const SERVICES: CurveParameter =
    CurveParameter::required("service_per_s", "1/s", "services per second of a busy server");
pub(super) const SERVICE_MEAN: CurveParameter =
    CurveParameter::required("service_mean_s", "s", "mean service time");
const SCV: CurveParameter =
    CurveParameter::required("service_scv", "1", "squared coefficient of variation of the service time");
pub(super) const PLACES: CurveParameter =
    CurveParameter::required("places", "1", "places in the system, the one in service included");
const STATIONS: CurveParameter = CurveParameter::required("stations", "1", "equal stations in series");
const BOOK: &str = "Kleinrock, Queueing Systems, volume 1 (1975)";

fn mm1(a: &Arguments) -> Result<Mm1, TheoryError> {
    Mm1::new(a.get("arrivals_per_s")?, a.get("service_per_s")?)
}

fn md1(a: &Arguments) -> Result<Mg1, TheoryError> {
    Mg1::constant(a.get("arrivals_per_s")?, a.get("service_mean_s")?)
}

fn mg1(a: &Arguments) -> Result<Mg1, TheoryError> {
    Mg1::new(a.get("arrivals_per_s")?, a.get("service_mean_s")?, a.get("service_scv")?)
}

fn mm1k(a: &Arguments) -> Result<Mm1k, TheoryError> {
    Mm1k::new(a.get("arrivals_per_s")?, a.get("service_per_s")?, a.count("places", 1)?)
}

fn tandem(a: &Arguments) -> Result<f64, TheoryError> {
    let stations = f64::from(a.count("stations", 1)?);
    Ok(stations * mm1(a)?.sojourn_s())
}

/// A [`TheoryCurve`] whose source is the constant `BOOK` of the module.
macro_rules! curve {
    ($name:literal, $title:literal, $parameters:expr, $unit:literal, $formula:expr) => {
        TheoryCurve {
            name: $name,
            title: $title,
            parameters: $parameters,
            unit: $unit,
            source: BOOK,
            formula: $formula,
        }
    };
}
pub(super) use curve;

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    curve!("mm1", "M/M/1 sojourn", &[ARRIVALS, SERVICES], "s", |a| Ok(mm1(a)?.sojourn_s())),
    curve!("mm1_waiting", "M/M/1 waiting", &[ARRIVALS, SERVICES], "s", |a| Ok(mm1(a)?.waiting_s())),
    curve!("mm1_number", "M/M/1 number", &[ARRIVALS, SERVICES], "1", |a| Ok(mm1(a)?.number_in_system())),
    curve!("md1", "M/D/1 sojourn", &[ARRIVALS, SERVICE_MEAN], "s", |a| Ok(md1(a)?.sojourn_s())),
    curve!("md1_waiting", "M/D/1 waiting", &[ARRIVALS, SERVICE_MEAN], "s", |a| Ok(md1(a)?.waiting_s())),
    curve!("md1_number", "M/D/1 number", &[ARRIVALS, SERVICE_MEAN], "1", |a| Ok(md1(a)?.number_in_system())),
    curve!("mg1", "M/G/1 sojourn", &[ARRIVALS, SERVICE_MEAN, SCV], "s", |a| Ok(mg1(a)?.sojourn_s())),
    curve!("mg1_waiting", "M/G/1 waiting", &[ARRIVALS, SERVICE_MEAN, SCV], "s", |a| Ok(mg1(a)?.waiting_s())),
    curve!("mg1_number", "M/G/1 number", &[ARRIVALS, SERVICE_MEAN, SCV], "1", |a| Ok(
        mg1(a)?.number_in_system()
    )),
    curve!("mm1k", "M/M/1/K sojourn", &[ARRIVALS, SERVICES, PLACES], "s", |a| Ok(mm1k(a)?.sojourn_s())),
    curve!("mm1k_loss", "M/M/1/K loss", &[ARRIVALS, SERVICES, PLACES], "1", |a| Ok(mm1k(a)?.loss())),
    curve!("mm1k_number", "M/M/1/K number", &[ARRIVALS, SERVICES, PLACES], "1", |a| Ok(
        mm1k(a)?.number_in_system()
    )),
    curve!("tandem_mm1", "tandem of M/M/1, sojourn", &[ARRIVALS, SERVICES, STATIONS], "s", tandem),
    TheoryCurve {
        name: "tandem_equal_lines",
        title: "two equal lines with the same packet sizes, sojourn",
        parameters: &[ARRIVALS, SERVICES],
        unit: "s",
        source: "Boxma, On a tandem queueing model with identical service times at both counters (1979)",
        formula: |a| Ok(EqualLines { first: mm1(a)? }.sojourn_s()),
    },
];
