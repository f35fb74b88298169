//! Metrics of one direction of a link.

use netrig_core::quantity::{
    LINK_BUSY, LINK_BYTES, LINK_DROPPED, LINK_OFFERED, LINK_REPEATED, LINK_SERVED, LINK_WAITED, QUEUE_LENGTH,
    WAITING_TIME, link_dropped,
};
use netrig_core::{DropReason, Quantity};

use super::super::{Per, SubjectKind::Link};
use super::{About, MeasuredValue, Metric, Need, Over, Rate, Share, Statistic, Total, View};

pub(super) const ALL: &[&dyn Metric] = &[
    &UTILISATION,
    &RATE,
    &QueueLength,
    &QueueLengthMax,
    &WaitingTime,
    &LOSS_RATIO,
    &DROPS,
    &DROPS_QUEUE_FULL,
    &DROPS_EARLY,
    &DROPS_LOSS,
    &DROPS_LISTED,
    &DROPS_CORRUPTED,
    &DROPS_LINK_DOWN,
    &DROPS_UNDELIVERABLE,
    &DROPS_RETRY_LIMIT,
    &DROPS_POLICED,
    &REPEATED,
];

static UTILISATION: Rate = Rate {
    about: About::new(
        "utilisation",
        "1",
        Link,
        "Share of the measuring window during which the line was sending; of WiFi, during which frames of this \
         direction and the answers to them were on the air.",
    )
    .share()
    .per(Per::Mean),
    quantity: &LINK_BUSY,
    times: 1.0,
    over: Over::Window,
};

static RATE: Rate = Rate {
    about: About::new(
        "rate",
        "bit/s",
        Link,
        "Bits of the IP packets that came out of the far end, or of a class of those that it sent, per second of the \
         measuring window.",
    )
    .of_classes(),
    quantity: &LINK_BYTES,
    times: 8.0,
    over: Over::Window,
};

static LOSS_RATIO: Share = Share {
    about: About::new(
        "loss_ratio",
        "1",
        Link,
        "Packets dropped, for whatever reason, divided by packets offered to the link (or to the queue of a class, \
         behind the policers) in the measuring window.",
    )
    .share()
    .pooled()
    .of_classes(),
    part: &[&LINK_DROPPED],
    whole: &[&LINK_OFFERED],
    nothing: "no packet was offered",
};

static DROPS: Total = Total {
    about: About::new(
        "drops",
        "packets",
        Link,
        "Packets dropped in the measuring window, for whatever reason.",
    )
    .of_classes(),
    quantity: &LINK_DROPPED,
};

/// Packets dropped for one reason.
const fn drops_for(why: DropReason, name: &'static str, definition: &'static str) -> Total {
    Total { about: About::new(name, "packets", Link, definition).of_classes(), quantity: link_dropped(why) }
}

static DROPS_QUEUE_FULL: Total = drops_for(
    DropReason::QueueFull,
    "drops_queue_full",
    "Packets dropped in the measuring window because the queue had no room.",
);

static DROPS_EARLY: Total = drops_for(
    DropReason::Early,
    "drops_early",
    "Packets that active queue management (RED, CoDel) dropped in the measuring window.",
);

static DROPS_LOSS: Total = drops_for(
    DropReason::Loss,
    "drops_loss",
    "Packets lost in the measuring window by the random loss of the link.",
);

static DROPS_LISTED: Total = drops_for(
    DropReason::Listed,
    "drops_listed",
    "Packets lost in the measuring window because the file lists them.",
);

static DROPS_CORRUPTED: Total = drops_for(
    DropReason::Corrupted,
    "drops_corrupted",
    "Packets whose bits were flipped, dropped by the far end in the measuring window.",
);

static DROPS_LINK_DOWN: Total = drops_for(
    DropReason::LinkDown,
    "drops_link_down",
    "Packets dropped in the measuring window because the link was down.",
);

static DROPS_UNDELIVERABLE: Total = drops_for(
    DropReason::Undeliverable,
    "drops_undeliverable",
    "Packets dropped in the measuring window because they had nowhere to go, or were longer than the link carries.",
);

static DROPS_RETRY_LIMIT: Total = drops_for(
    DropReason::RetryLimit,
    "drops_retry_limit",
    "Packets that the link layer of a WiFi link gave up in the measuring window, having sent them as often as it does.",
);

static DROPS_POLICED: Total = Total {
    about: About::new(
        "drops_policed",
        "packets",
        Link,
        "Packets dropped by policers in the measuring window: by the rules of the line, by one of them, or, of a class, by \
         its reservation.",
    )
    .of_classes()
    .of_rules(),
    quantity: link_dropped(DropReason::Policed),
};

static REPEATED: Total = Total {
    about: About::new(
        "repeated",
        "packets",
        Link,
        "Packets that the link layer of a WiFi link sent once more in the measuring window, each time counted.",
    ),
    quantity: &LINK_REPEATED,
};

/// Mean length of the queue.
struct QueueLength;

static QUEUE_LENGTH_MEAN: About = About::new(
    "queue_length",
    "packets",
    Link,
    "Packets that wait, averaged over the time of the measuring window; the packet on the line is not \
     among them.",
)
.per(Per::Mean)
.of_classes();

impl Metric for QueueLength {
    fn about(&self) -> &About {
        &QUEUE_LENGTH_MEAN
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Average(&QUEUE_LENGTH)]
    }

    fn signal(&self) -> Option<&'static Quantity> {
        Some(&QUEUE_LENGTH)
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        match view.average(&QUEUE_LENGTH) {
            Some(level) => level.mean.into(),
            None => MeasuredValue::not("the queue was not observed"),
        }
    }
}

/// Greatest length of the queue.
struct QueueLengthMax;

static QUEUE_LENGTH_MAX: About = About::new(
    "queue_length_max",
    "packets",
    Link,
    "Packets that wait, averaged over the sampling interval of the measuring window in which they were most.",
)
.per(Per::Max)
.of_classes();

impl Metric for QueueLengthMax {
    fn about(&self) -> &About {
        &QUEUE_LENGTH_MAX
    }

    fn needs(&self, _: Statistic) -> Vec<Need> {
        vec![Need::Average(&QUEUE_LENGTH)]
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        match view.average(&QUEUE_LENGTH) {
            Some(level) => level.max.into(),
            None => MeasuredValue::not("the queue was not observed"),
        }
    }
}

/// Waiting time of packets.
struct WaitingTime;

static WAITING: About = About::new(
    "waiting_time",
    "s",
    Link,
    "Time that a packet waited in the queue before it was sent, over the packets that left for the line in \
     the measuring window.",
)
.observed()
.of_classes();

impl Metric for WaitingTime {
    fn about(&self) -> &About {
        &WAITING
    }

    /// The mean needs only sums, whose cost does not depend on the number of packets.
    fn needs(&self, statistic: Statistic) -> Vec<Need> {
        match statistic {
            Statistic::Mean => vec![Need::Total(&LINK_WAITED), Need::Total(&LINK_SERVED)],
            Statistic::Quantile(_) => vec![Need::Observations(&WAITING_TIME)],
            _ => vec![Need::Summary(&WAITING_TIME)],
        }
    }

    fn signal(&self) -> Option<&'static Quantity> {
        Some(&LINK_WAITED)
    }

    fn reduce(&self, view: &View<'_>) -> MeasuredValue {
        if view.chosen() != Statistic::Mean {
            return view.statistic(&WAITING_TIME);
        }
        let served = view.total(&LINK_SERVED);
        if served > 0.0 {
            (view.total(&LINK_WAITED) / served).into()
        } else {
            MeasuredValue::not("no packet was sent")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, link};

    fn measure(bench: &mut Bench, rest: &str) -> Result<f64, String> {
        bench.measure(&format!("of = 'link.primary'\n{rest}"))
    }

    /// 2 s + 3 s of sending in 10 s; 125 KB are 1 Mbit, in 10 s 100 kbit/s.
    #[test]
    fn how_busy_the_line_was() {
        let mut bench = Bench::new(10);
        bench.count(link(), &LINK_BUSY, &[(5.0, 2.0), (10.0, 3.0)]);
        bench.count(link(), &LINK_BYTES, &[(5.0, 25_000.0), (10.0, 100_000.0)]);
        assert_eq!(measure(&mut bench, "metric = 'utilisation'"), Ok(0.5));
        assert_eq!(measure(&mut bench, "metric = 'rate'"), Ok(100_000.0));
        assert_eq!(measure(&mut bench, "metric = 'rate'\nunit = 'KB/s'"), Ok(12.5));
        assert_eq!(bench.measure("of = 'link.primary.backward'\nmetric = 'rate'"), Ok(0.0));
    }

    /// 4 for 2 s, 1 for 6 s, 8 for 2 s: (8 + 6 + 16) / 10. From 2 s on: 22 / 8.
    #[test]
    fn the_mean_queue_weighs_by_time() {
        let mut bench = Bench::new(10);
        assert!(measure(&mut bench, "metric = 'queue_length'").is_err());
        bench.count(link(), &QUEUE_LENGTH, &[(2.0, 4.0), (8.0, 1.0), (10.0, 8.0)]);
        assert_eq!(measure(&mut bench, "metric = 'queue_length'"), Ok(3.0));
        assert_eq!(measure(&mut bench, "metric = 'queue_length'\nafter = '2 s'"), Ok(2.75));
        assert_eq!(measure(&mut bench, "metric = 'queue_length_max'"), Ok(8.0));
        assert_eq!(measure(&mut bench, "metric = 'queue_length_max'\nuntil = '8 s'"), Ok(4.0));
    }

    /// 6 s of waiting over 4 packets; the median of 1, 1, 4 is 1.
    #[test]
    fn waiting() {
        let mut bench = Bench::new(10);
        assert!(measure(&mut bench, "metric = 'waiting_time'").is_err());
        bench.count(link(), &LINK_WAITED, &[(1.0, 2.0), (2.0, 4.0)]);
        bench.count(link(), &LINK_SERVED, &[(1.0, 1.0), (2.0, 3.0)]);
        bench.count(link(), &WAITING_TIME, &[(1.0, 1.0), (2.0, 1.0), (2.0, 4.0)]);
        assert_eq!(measure(&mut bench, "metric = 'waiting_time'"), Ok(1.5));
        assert_eq!(measure(&mut bench, "metric = 'waiting_time'\nstatistic = 'p50'"), Ok(1.0));
        assert_eq!(measure(&mut bench, "metric = 'waiting_time'\nstatistic = 'max'"), Ok(4.0));
    }

    #[test]
    fn loss() {
        let mut bench = Bench::new(10);
        assert_eq!(measure(&mut bench, "metric = 'loss_ratio'").unwrap_err(), "no packet was offered");
        bench.count(link(), &LINK_OFFERED, &[(1.0, 30.0), (2.0, 10.0)]);
        bench.count(link(), &LINK_DROPPED, &[(1.0, 1.0), (2.0, 1.0)]);
        assert_eq!(measure(&mut bench, "metric = 'loss_ratio'"), Ok(0.05));
        assert_eq!(measure(&mut bench, "metric = 'drops'"), Ok(2.0));
        bench.count(link(), link_dropped(DropReason::QueueFull), &[(2.0, 1.0)]);
        assert_eq!(measure(&mut bench, "metric = 'drops_queue_full'"), Ok(1.0));
        assert_eq!(measure(&mut bench, "metric = 'drops_loss'"), Ok(0.0));
    }
}
