//! One server with several priority classes, without preemption.
//!
//! Assumes Poisson arrivals of each class, independent service times, and no loss. Source: Cobham
//! (1954), *Priority assignment in waiting line problems*, Operations Research 2.

use super::curve::{Arguments, CurveParameter, TheoryCurve};
use super::{TheoryError, not_negative, positive, stable};

/// The load of one class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PriorityClass {
    arrivals_per_s: f64,
    service_mean_s: f64,
    service_scv: f64,
}

impl PriorityClass {
    /// `service_scv` is the service time's squared coefficient of variation.
    ///
    /// # Errors
    /// A parameter out of range.
    pub fn new(arrivals_per_s: f64, service_mean_s: f64, service_scv: f64) -> Result<Self, TheoryError> {
        Ok(Self {
            arrivals_per_s: not_negative("arrivals_per_s", arrivals_per_s)?,
            service_mean_s: positive("service_mean_s", service_mean_s)?,
            service_scv: not_negative("service_scv", service_scv)?,
        })
    }

    fn load(&self) -> f64 {
        self.arrivals_per_s * self.service_mean_s
    }

    /// Mean residual service time at a random time within a service.
    fn rest_s(&self) -> f64 {
        0.5 * self.service_mean_s * (1.0 + self.service_scv)
    }
}

/// The mean waiting time of a class, s. The first of `classes` has the highest priority.
///
/// W = R / ((1 - σ_before) (1 - σ)), where R is the mean residual service time at an arrival, σ is the load of this
/// class and all higher classes, and σ_before is the load of the higher classes only. Lower classes affect only R. If
/// the total load exceeds 1, lower classes are served in the remaining time, in their order.
///
/// # Errors
/// No such class, or a load of 1 or more of this class and all higher classes.
pub fn waiting_s(classes: &[PriorityClass], class: usize) -> Result<f64, TheoryError> {
    if class >= classes.len() {
        let range = "the number of a class";
        return Err(TheoryError::OutOfRange { parameter: "class", range, value: class as f64 });
    }
    let before: f64 = classes[..class].iter().map(PriorityClass::load).sum();
    let with = stable(before + classes[class].load())?;
    let (mut left, mut rest) = (1.0, 0.0);
    for class in classes {
        let served = class.load().min(left);
        left -= served;
        rest += served * class.rest_s();
    }
    Ok(rest / ((1.0 - before) * (1.0 - with)))
}

const FIRST: CurveParameter =
    CurveParameter::required("first_per_s", "1/s", "arrivals per second of the first class");
const SECOND: CurveParameter =
    CurveParameter::required("second_per_s", "1/s", "arrivals per second of the second class");
const SERVICE: CurveParameter = CurveParameter::required("service_mean_s", "s", "mean service time of both");
const SCV: CurveParameter =
    CurveParameter::optional("service_scv", "1", "squared coefficient of variation of the service time", 0.0);
const SOURCE: &str = "Cobham, Priority assignment in waiting line problems (1954)";

fn of_two(a: &Arguments, class: usize) -> Result<f64, TheoryError> {
    let (service, scv) = (a.get("service_mean_s")?, a.get("service_scv")?);
    let first = PriorityClass::new(a.get("first_per_s")?, service, scv)?;
    let second = PriorityClass::new(a.get("second_per_s")?, service, scv)?;
    waiting_s(&[first, second], class)
}

/// The curves of this model.
pub(super) const CURVES: &[TheoryCurve] = &[
    TheoryCurve {
        name: "priority_first",
        title: "waiting of the first of two priorities",
        parameters: &[SECOND, FIRST, SERVICE, SCV],
        unit: "s",
        source: SOURCE,
        formula: |a| of_two(a, 0),
    },
    TheoryCurve {
        name: "priority_second",
        title: "waiting of the second of two priorities",
        parameters: &[SECOND, FIRST, SERVICE, SCV],
        unit: "s",
        source: SOURCE,
        formula: |a| of_two(a, 1),
    },
];

#[cfg(test)]
mod tests {
    use super::super::queue::Mg1;
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} is not {b}");
    }

    fn class(arrivals: f64, service: f64, scv: f64) -> PriorityClass {
        PriorityClass::new(arrivals, service, scv).unwrap()
    }

    /// Three classes: load 0.2 with constant services of 10 ms, load 0.25 with exponential services of 10 ms, load 0.25
    /// with services uniform from 0 to 20 ms (scv 1/3). R = 1 + 2.5 + 5/3 ms; W_1 = R / 0.8, W_2 = R / (0.8 · 0.55),
    /// W_3 = R / (0.55 · 0.3).
    #[test]
    fn three_classes_by_hand() {
        let classes = [class(20.0, 0.01, 0.0), class(25.0, 0.01, 1.0), class(25.0, 0.01, 1.0 / 3.0)];
        let rest = (1.0 + 2.5 + 5.0 / 3.0) * 1e-3;
        for (n, share) in [0.8, 0.8 * 0.55, 0.55 * 0.3].into_iter().enumerate() {
            close(waiting_s(&classes, n).unwrap(), rest / share);
        }
    }

    /// Kleinrock's conservation law (1965): the sum of load times waiting time does not depend on the order. With one
    /// class the sum is that of M/G/1.
    #[test]
    fn what_one_class_gains_the_others_lose() {
        let (a, b) = (class(30.0, 0.01, 0.0), class(50.0, 0.01, 0.0));
        let sum = |first: PriorityClass, second: PriorityClass| {
            let classes = [first, second];
            first.load() * waiting_s(&classes, 0).unwrap() + second.load() * waiting_s(&classes, 1).unwrap()
        };
        let all = Mg1::constant(80.0, 0.01).unwrap();
        close(sum(a, b), 0.8 * all.waiting_s());
        close(sum(b, a), 0.8 * all.waiting_s());
        close(waiting_s(&[class(80.0, 0.01, 0.0)], 0).unwrap(), all.waiting_s());
    }

    /// If the second class is overloaded, the first class always finds a packet on the line.
    #[test]
    fn the_first_class_waits_although_the_second_has_no_end() {
        let classes = [class(20.0, 0.01, 0.0), class(500.0, 0.01, 0.0)];
        close(waiting_s(&classes, 0).unwrap(), 0.005 / 0.8);
        assert!(matches!(waiting_s(&classes, 1), Err(TheoryError::Unstable { .. })));
        assert!(waiting_s(&classes, 2).is_err());
    }
}
