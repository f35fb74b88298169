//! A single server with a finite queue: M/G/1/K, and the delay of a priority packet that waits for a transmit ring.
//!
//! Assumes Poisson arrivals, independent service times that are gamma distributed with the given mean and variability
//! (including constant and exponential times), first come first served, and the steady state at any load. Source: Gross
//! and Harris, *Fundamentals of Queueing Theory*, 3rd ed. (1998), section 5.1.8. It computes the number in system after
//! departures and, from that, the number at any time.

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::queue::{ARRIVALS, PLACES, SERVICE_MEAN, curve};
use super::{TheoryError, not_negative, positive};

/// Sums of tails above this value are scaled down, so that high loads do not overflow.
const LARGE: f64 = 1e200;

/// M/G/1/K: an arrival is lost if `places` customers are in the system, including the customer in service.
#[derive(Debug, Clone, PartialEq)]
pub struct Mg1k {
    arrivals_per_s: f64,
    service_mean_s: f64,
    service_scv: f64,
    /// The probabilities of 0, 1, .. customers in system. They are the same at any time and at arrivals.
    number: Vec<f64>,
}

impl Mg1k {
    /// `service_scv` is the service time's squared coefficient of variation: 0 for constant, 1 for exponential.
    ///
    /// # Errors
    /// A parameter out of range: arrivals and service times must be positive, and `places` from 1 to 5000.
    pub fn new(
        arrivals_per_s: f64,
        service_mean_s: f64,
        service_scv: f64,
        places: u32,
    ) -> Result<Self, TheoryError> {
        let arrivals_per_s = positive("arrivals_per_s", arrivals_per_s)?;
        let service_mean_s = positive("service_mean_s", service_mean_s)?;
        let service_scv = not_negative("service_scv", service_scv)?;
        if !(1..=5000).contains(&places) {
            let range = "from 1 to 5000";
            return Err(TheoryError::OutOfRange { parameter: "places", range, value: places.into() });
        }
        let load = arrivals_per_s * service_mean_s;
        let number = number_in_system(load, service_scv, places as usize);
        Ok(Self { arrivals_per_s, service_mean_s, service_scv, number })
    }

    /// M/D/1/K: constant service time.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn constant(arrivals_per_s: f64, service_s: f64, places: u32) -> Result<Self, TheoryError> {
        Self::new(arrivals_per_s, service_s, 0.0, places)
    }

    /// The share of lost arrivals.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.number.last().copied().unwrap_or(0.0)
    }

    /// Mean number in system.
    #[must_use]
    pub fn number_in_system(&self) -> f64 {
        (0u32..).zip(&self.number).map(|(n, p)| f64::from(n) * p).sum()
    }

    /// Mean time from arrival to departure of customers that are not lost, by Little's law.
    #[must_use]
    pub fn sojourn_s(&self) -> f64 {
        self.number_in_system() / (self.arrivals_per_s * (1.0 - self.loss()))
    }

    /// Mean waiting time of customers that are not lost.
    #[must_use]
    pub fn waiting_s(&self) -> f64 {
        // At loads near zero, rounding may make the difference of two equal numbers slightly negative.
        (self.sojourn_s() - self.service_mean_s).max(0.0)
    }

    /// Mean waiting time of a priority packet that waits only for packets on the line and in a transmit ring of `ring`
    /// places. Priority packets are assumed to be so rare that they do not affect other packets.
    ///
    /// By PASTA the packet finds the distribution that the system has at any time. While the server is busy, the mean
    /// residual service time is s (1 + scv) / 2. Of the waiting packets the first `ring` are in the ring.
    #[must_use]
    pub fn waiting_behind_ring_s(&self, ring: u32) -> f64 {
        let busy = 1.0 - self.number[0];
        let ahead: f64 =
            (0u32..).zip(&self.number).skip(1).map(|(n, p)| f64::from((n - 1).min(ring)) * p).sum();
        self.service_mean_s * (ahead + busy * 0.5 * (1.0 + self.service_scv))
    }
}

/// The probabilities of 0 to `places` customers in system.
///
/// The number in system after departures crosses from j to j + 1 as often as back. It goes up in a service with enough
/// arrivals, and down in a service without an arrival. With a_0 = P(no arrival) and T_k = P(more than k arrivals),
///
/// π_(j+1) a_0 = π_0 T_j + Σ_(i = 1..j) π_i T_(j-i+1),
///
/// The formula has no subtraction, so it is precise for hundreds of places. With L lost arrivals per departure, the
/// share of lost arrivals is L / (1 + L), which is also the share of time with a full system.
fn number_in_system(load: f64, scv: f64, places: usize) -> Vec<f64> {
    let (none, tails) = arrivals_in_service(load, scv, places);
    let mut left = vec![1.0];
    for j in 0..places - 1 {
        let up: f64 = (1..=j).map(|i| left[i] * tails[j - i + 1]).sum();
        let next = (left[0] * tails[j] + up) / none;
        left.push(next);
        if next > LARGE {
            left.iter_mut().for_each(|share| *share /= LARGE);
        }
    }
    let all: f64 = left.iter().sum();
    // Arrivals in excess of `room` are lost: E[(A - room)+] is the sum of the tails from `room` on.
    let beyond = |room: usize| tails[room..].iter().rev().sum::<f64>();
    let lost = |(n, share): (usize, &f64)| share / all * beyond(places - n.max(1));
    let lost: f64 = left.iter().enumerate().map(lost).sum();
    let full = lost / (1.0 + lost);
    // An accepted arrival finds the same distribution that a departure leaves.
    let mut number: Vec<f64> = left.iter().map(|share| share / all * (1.0 - full)).collect();
    number.push(full);
    number
}

/// The number of arrivals during a service: the probability of no arrival, and the probabilities of more than 0, 1, ..
/// arrivals. The number is negative binomial for a gamma distributed service time, and Poisson for a constant one.
fn arrivals_in_service(load: f64, scv: f64, places: usize) -> (f64, Vec<f64>) {
    let none = if scv > 0.0 { libm::exp(-libm::log1p(load * scv) / scv) } else { libm::exp(-load) };
    let mut shares = vec![none];
    // Stops at a probability that is negligible even relative to the last tail.
    let mut n = 0.0;
    while shares.len() <= places || shares.last().is_some_and(|share| *share > 1e-40) {
        let last = shares[shares.len() - 1];
        shares.push(last * load * (1.0 + n * scv) / ((n + 1.0) * (1.0 + load * scv)));
        n += 1.0;
    }
    // Summed from the end, so that small tails are precise.
    let mut tails: Vec<f64> = shares
        .iter()
        .rev()
        .scan(0.0, |beyond, share| {
            let tail = *beyond;
            *beyond += share;
            Some(tail)
        })
        .collect();
    tails.reverse();
    (none, tails)
}

const SCV: CurveParameter = CurveParameter::optional(
    "service_scv",
    "1",
    "squared coefficient of variation of the service time, which is gamma distributed",
    0.0,
);
const RING: CurveParameter =
    CurveParameter::required("ring", "1", "places of the transmit ring behind the scheduler");
const OWN: CurveParameter = CurveParameter::required("own_bit_per_s", "bit/s", "offered rate of the flow");
const BOOK: &str = "Gross and Harris, Fundamentals of Queueing Theory, 3rd ed. (1998), section 5.1.8";

fn model(a: &Arguments) -> Result<Mg1k, TheoryError> {
    let [arrivals, service, scv] =
        [a.get("arrivals_per_s")?, a.get("service_mean_s")?, a.get("service_scv")?];
    Mg1k::new(arrivals, service, scv, a.count("places", 1)?)
}

const QUEUE: &[CurveParameter] = &[ARRIVALS, SERVICE_MEAN, PLACES, SCV];

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    curve!("mg1k", "M/G/1/K sojourn", QUEUE, "s", |a| Ok(model(a)?.sojourn_s())),
    curve!("mg1k_waiting", "M/G/1/K waiting", QUEUE, "s", |a| Ok(model(a)?.waiting_s())),
    curve!("mg1k_loss", "M/G/1/K loss", QUEUE, "1", |a| Ok(model(a)?.loss())),
    curve!("mg1k_number", "M/G/1/K number", QUEUE, "1", |a| Ok(model(a)?.number_in_system())),
    curve!(
        "mg1k_goodput",
        "M/G/1/K, goodput of one flow",
        &[ARRIVALS, SERVICE_MEAN, PLACES, OWN, SCV],
        "bit/s",
        |a| Ok(a.get("own_bit_per_s")? * (1.0 - model(a)?.loss()))
    ),
    curve!(
        "ring_waiting",
        "waiting behind the transmit ring of an M/G/1/K queue",
        &[ARRIVALS, SERVICE_MEAN, PLACES, RING, SCV],
        "s",
        |a| Ok(model(a)?.waiting_behind_ring_s(a.count("ring", 0)?))
    ),
];

#[cfg(test)]
mod tests {
    use super::super::queue::{Mg1, Mm1k};
    use super::*;

    fn close(a: f64, b: f64, within: f64) {
        assert!((a - b).abs() <= within * b.abs().max(1e-300), "{a} is not {b}");
    }

    /// Exponential service: the closed form of M/M/1/K, for loads below, at and above 1.
    #[test]
    fn exponential_service_is_m_m_1_k() {
        for load in [0.3, 0.95, 1.0, 1.2, 3.0] {
            for places in [1, 2, 10, 100, 600] {
                let (own, other) =
                    (Mg1k::new(load, 1.0, 1.0, places).unwrap(), Mm1k::new(load, 1.0, places).unwrap());
                assert!((own.loss() - other.loss()).abs() < 1e-15 + 1e-9 * other.loss());
                close(own.number_in_system(), other.number_in_system(), 1e-9);
                close(own.sojourn_s(), other.sojourn_s(), 1e-9);
            }
        }
    }

    /// With enough places, the queue is M/G/1, whose waiting time is given by Pollaczek and Khinchine.
    #[test]
    fn with_room_for_all_it_is_m_g_1() {
        for (load, scv) in [(0.5, 0.0), (0.8, 0.0), (0.9, 0.25), (0.7, 1.0), (0.6, 4.0)] {
            let own = Mg1k::new(load, 1.0, scv, 1500).unwrap();
            close(own.waiting_s(), Mg1::new(load, 1.0, scv).unwrap().waiting_s(), 1e-9);
            assert!(own.loss() < 1e-9);
        }
    }

    /// A policer with a bucket of K packets whose rate equals the offered load: the passed share 1 - loss is 0.949,
    /// 0.980 and 0.995.
    #[test]
    fn a_bucket_loses_what_an_independent_computation_says() {
        for (places, loss) in [(10, 0.05085), (25, 0.02013), (100, 0.00501)] {
            close(Mg1k::constant(1.0, 1.0, places).unwrap().loss(), loss, 2e-3);
        }
    }

    /// M/D/1/1 is Erlang B with one server, ρ / (1 + ρ), for any distribution of service times. M/D/1/2 by hand: π_0 =
    /// e^-ρ, so the loss is 1 - 1 / (e^-ρ + ρ).
    #[test]
    fn one_and_two_places_by_hand() {
        for load in [0.1, 1.0, 2.5] {
            close(Mg1k::constant(load, 1.0, 1).unwrap().loss(), load / (1.0 + load), 1e-12);
            let two = 1.0 - 1.0 / (libm::exp(-load) + load);
            close(Mg1k::constant(load, 1.0, 2).unwrap().loss(), two, 1e-9);
        }
    }

    /// Above a load of 1 a large queue is always full, and the throughput is the rate of the server.
    #[test]
    fn overload_carries_what_the_server_does() {
        let own = Mg1k::constant(1.25, 1.0, 500).unwrap();
        close(own.loss(), 0.2, 1e-9);
        assert!(own.number_in_system() > 496.0);
    }

    /// A ring that holds all packets is first come first served. Without places in the ring only the residual service
    /// time remains, ρ s / 2, as in a priority queue for rare packets (Cobham 1954).
    #[test]
    fn a_ring_stands_between_priority_and_first_come_first_served() {
        let own = Mg1k::constant(0.9, 1.0, 800).unwrap();
        close(own.waiting_behind_ring_s(800), own.waiting_s(), 1e-9);
        close(own.waiting_behind_ring_s(0), 0.45, 1e-9);
        let full = Mg1k::constant(1.5, 2.0, 100).unwrap();
        // The line and the ring are never empty: a priority packet waits for 20 packets and half a packet.
        close(full.waiting_behind_ring_s(20), 2.0 * 20.5, 1e-6);
    }

    #[test]
    fn refuses_what_is_no_queue() {
        assert!(Mg1k::constant(0.0, 1.0, 10).is_err());
        assert!(Mg1k::constant(1.0, 1.0, 0).is_err() && Mg1k::constant(1.0, 1.0, 5001).is_err());
    }
}
