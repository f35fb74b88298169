//! Metrics with many observations per run: objects, requests, datagrams.

use netrig_core::Quantity;
use netrig_core::quantity::{DATAGRAMS_RECEIVED, DATAGRAMS_SENT, OBJECT_TIME, ONE_WAY_DELAY, RESPONSE_TIME};

use super::super::SubjectKind::Flow;
use super::{About, Measured, Metric, Need, Statistic, View};

pub(super) const ALL: &[&dyn Metric] = &[&OBJECTS, &RESPONSES, &DELAY, &DatagramLoss];

/// A statistic of the observations of one quantity.
struct Observed {
    about: About,
    quantity: &'static Quantity,
}

impl Metric for Observed {
    fn about(&self) -> &About {
        &self.about
    }

    fn needs(&self, statistic: Statistic) -> Vec<Need> {
        let need = if statistic.streams() { Need::Summary } else { Need::Observations };
        vec![need(self.quantity)]
    }

    fn reduce(&self, view: &View<'_>) -> Measured {
        view.statistic(self.quantity)
    }
}

static OBJECTS: Observed = Observed {
    about: About::new(
        "object_time",
        "s",
        Flow,
        "Time from the moment the application meant to send an object until its last byte was delivered, \
         over the objects that were complete in the measuring window. Of a `file` it is the time from the \
         establishment of its connection, for the receiver knows of no earlier moment; `response_time` has \
         the whole.",
    )
    .observed(),
    quantity: &OBJECT_TIME,
};

static RESPONSES: Observed = Observed {
    about: About::new(
        "response_time",
        "s",
        Flow,
        "Time from a request until the last byte of its response, over the responses that were complete in \
         the measuring window.",
    )
    .observed(),
    quantity: &RESPONSE_TIME,
};

static DELAY: Observed = Observed {
    about: About::new(
        "one_way_delay",
        "s",
        Flow,
        "Time from sending a datagram until its delivery, over the datagrams delivered in the measuring \
         window.",
    )
    .observed(),
    quantity: &ONE_WAY_DELAY,
};

/// The share of datagrams that did not arrive.
struct DatagramLoss;

static DATAGRAM_LOSS: About = About::new(
    "datagram_loss",
    "1",
    Flow,
    "Share of the datagrams sent in the measuring window that were not received in it, each counted once \
     however often it arrives; those that may still be on their way when the run ends, sent no longer ago than \
     the longest delay was, do not count as sent. Never below 0.",
)
.pooled();

impl Metric for DatagramLoss {
    fn about(&self) -> &About {
        &DATAGRAM_LOSS
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Total(&DATAGRAMS_SENT), Need::Total(&DATAGRAMS_RECEIVED)]
    }

    fn reduce(&self, view: &View<'_>) -> Measured {
        let sent = view.total(&DATAGRAMS_SENT);
        if sent > 0.0 {
            (1.0 - view.total(&DATAGRAMS_RECEIVED) / sent).max(0.0).into()
        } else {
            Measured::not("no datagram was sent")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// 0.1, 0.2, 0.3, 1.0 s: mean 0.4; type-7 median 0.25; p75 lies at position 2.25: 0.3 + 0.25 × 0.7.
    #[test]
    fn statistics_of_object_times() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &OBJECT_TIME, &[(1.0, 0.1), (2.0, 0.2), (3.0, 1.0), (4.0, 0.3)]);
        let mut of = |statistic: &str| {
            let text = format!("of = 'flow.web'\nmetric = 'object_time'\nstatistic = '{statistic}'");
            bench.measure(&text).unwrap()
        };
        assert!((of("mean") - 0.4).abs() < 1e-12);
        assert_eq!((of("p50"), of("max"), of("min")), (0.25, 1.0, 0.1));
        assert!((of("p75") - 0.475).abs() < 1e-12);
        // Squared distances from 0.4: 0.09 + 0.04 + 0.36 + 0.01 = 0.5, by 3.
        assert!((of("sd") - (0.5f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn observations_outside_the_window_do_not_count() {
        let mut bench = Bench::new(10);
        bench.count(flow(), &RESPONSE_TIME, &[(1.0, 5.0), (2.0, 0.2), (3.0, 0.4)]);
        let text = "of = 'flow.web'\nmetric = 'response_time'\nafter = '1 s'\nunit = 'ms'";
        assert!((bench.measure(text).unwrap() - 300.0).abs() < 1e-9);
        let none = bench.measure("of = 'flow.web'\nmetric = 'one_way_delay'").unwrap_err();
        assert_eq!(none, "there were no observations");
        let one = "of = 'flow.web'\nmetric = 'response_time'\nafter = '2 s'\nstatistic = 'sd'";
        assert_eq!(bench.measure(one).unwrap_err(), "there were too few observations");
    }

    /// 7 of 10 arrived: 0.3.
    #[test]
    fn datagrams_that_did_not_arrive() {
        let mut bench = Bench::new(10);
        assert!(bench.measure("of = 'flow.web'\nmetric = 'datagram_loss'").is_err());
        bench.count(flow(), &DATAGRAMS_SENT, &[(1.0, 4.0), (2.0, 6.0)]);
        bench.count(flow(), &DATAGRAMS_RECEIVED, &[(1.0, 3.0), (2.0, 4.0)]);
        let loss = bench.measure("of = 'flow.web'\nmetric = 'datagram_loss'").unwrap();
        assert!((loss - 0.3).abs() < 1e-12);
    }
}
