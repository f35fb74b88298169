//! Metrics of one direction of a link.

use netrig_core::DropReason;
use netrig_core::quantity::{
    LINK_BUSY, LINK_BYTES, LINK_DROPPED, LINK_OFFERED, LINK_REPEATED, LINK_SERVED, LINK_WAITED, QUEUE_LENGTH,
    WAITING_TIME, link_dropped,
};

use super::super::Per;
use super::{MeasuredValue, Need, Statistic, View, metrics, ratio};

metrics! {
    of Link;
    "utilisation" ["1"].share().per(Per::Mean).rate(&LINK_BUSY):
        "Share of the measuring window during which the line was sending; of WiFi, during which frames of \
         this direction and the answers to them were on the air.";
    "rate" ["bit/s"].of_classes().bit_rate(&LINK_BYTES):
        "Bits of the IP packets that the link delivered or, of a class, that the line sent, per second of \
         the measuring window.";
    "queue_length" ["packets"].of_classes().mean_level(&QUEUE_LENGTH, NO_QUEUE):
        "Waiting packets, averaged over the measuring window, without the packet on the line.";
    "queue_length_max" ["packets"].of_classes().largest_level(&QUEUE_LENGTH, NO_QUEUE):
        "Largest mean number of waiting packets over a sampling interval of the measuring window.";
    "waiting_time" ["s"].observed().of_classes()
        .computed(waiting_time_needs, waiting_time).with_signal(&LINK_WAITED):
        "Time that a packet waited in the queue before it was sent, over the packets that the line began \
         to send in the measuring window.";
    "loss_ratio" ["1"].of_classes().share_of(&[&LINK_DROPPED], &[&LINK_OFFERED], "no packet was offered"):
        "Packets dropped for any reason, divided by packets offered to the link (of a class: to its \
         queue, behind the policers) in the measuring window.";
    "drops" ["packets"].of_classes().total(&LINK_DROPPED):
        "Packets dropped for any reason in the measuring window.";
    "drops_queue_full" ["packets"].of_classes().total(link_dropped(DropReason::QueueFull)):
        "Packets dropped in the measuring window because the queue had no room.";
    "drops_early" ["packets"].of_classes().total(link_dropped(DropReason::Early)):
        "Packets that active queue management (RED, CoDel) dropped in the measuring window.";
    "drops_loss" ["packets"].of_classes().total(link_dropped(DropReason::Loss)):
        "Packets dropped in the measuring window by the random loss of the link.";
    "drops_listed" ["packets"].of_classes().total(link_dropped(DropReason::Listed)):
        "Packets dropped in the measuring window because the file lists them.";
    "drops_corrupted" ["packets"].of_classes().total(link_dropped(DropReason::Corrupted)):
        "Packets that the far end dropped in the measuring window because bits were flipped.";
    "drops_link_down" ["packets"].of_classes().total(link_dropped(DropReason::LinkDown)):
        "Packets dropped in the measuring window because the link was down.";
    "drops_undeliverable" ["packets"].of_classes().total(link_dropped(DropReason::Undeliverable)):
        "Packets dropped in the measuring window because there was no route, or because they were longer \
         than the MTU of the link.";
    "drops_retry_limit" ["packets"].of_classes().total(link_dropped(DropReason::RetryLimit)):
        "Packets that the link layer of a WiFi link dropped in the measuring window after its last \
         attempt.";
    "drops_policed" ["packets"].of_classes().of_rules().total(link_dropped(DropReason::Policed)):
        "Packets dropped by policers in the measuring window: of a link by all its rules, of a rule by \
         that rule, of a class by its reservation.";
    "repeated" ["packets"].total(&LINK_REPEATED):
        "Retransmissions of packets by the link layer of a WiFi link in the measuring window.";
}

const NO_QUEUE: &str = "the queue was not observed";

/// Time of packets in the queue.
fn waiting_time(view: &View<'_>) -> MeasuredValue {
    if view.chosen() != Statistic::Mean {
        return view.statistic(&WAITING_TIME);
    }
    ratio(view.total(&LINK_WAITED), view.total(&LINK_SERVED), "no packet was sent")
}

/// The mean needs only sums, which take the same memory for any number of packets.
fn waiting_time_needs(statistic: Statistic) -> Vec<Need> {
    match statistic {
        Statistic::Mean => vec![Need::Total(&LINK_WAITED), Need::Total(&LINK_SERVED)],
        Statistic::Quantile(_) => vec![Need::Observations(&WAITING_TIME)],
        _ => vec![Need::Summary(&WAITING_TIME)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, link};

    fn measure(bench: &mut Bench, rest: &str) -> Result<f64, String> {
        bench.measure(&format!("of = 'link.primary'\n{rest}"))
    }

    /// The line sends for 2 s + 3 s of 10 s. 125 KB in 10 s are 100 kbit/s.
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

    /// The queue has 4 packets for 2 s, 1 for 6 s and 8 for 2 s: (8 + 6 + 16) / 10. From 2 s on, the mean is 22 / 8.
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

    /// The mean is 6 s of waiting over 4 packets. The median of 1, 1, 4 is 1.
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
