//! Metrics of a load for Prometheus.

use netrig_core::prometheus::{MetricKind, MetricsPage};
use netrig_core::{Duration, Histogram};
use netrig_sip_net::load::{FailureKind, LoadOrder, OutcomeRow, SecondRow, SoFar};

/// Upper ends of the buckets of durations, s: 1, 2 and 5 of each decade, and the thresholds between them.
const ENDS: [f64; 20] = [
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0,
    20.0, 50.0, 100.0,
];

/// The page with all measurements until the end of this second.
pub fn page(title: &str, row: &SecondRow, so_far: SoFar<'_>, order: &LoadOrder) -> MetricsPage {
    let mut page = MetricsPage::default();
    let labels = vec![("load", title), ("version", env!("CARGO_PKG_VERSION"))];
    page.family(("netrig_sip_load_info", "The load and its target", MetricKind::Gauge), [(labels, 1.0)]);
    outcomes(&mut page, so_far);
    now(&mut page, row);
    let spans = so_far.spans();
    let labelled = spans.map(|(name, rfc6076, spans)| {
        (vec![("delay", name), ("rfc6076", rfc6076.unwrap_or_default())], spans)
    });
    histograms(
        &mut page,
        ("netrig_sip_delay_seconds", "Delays by the definitions of their indices"),
        labelled,
    );
    thresholds(&mut page, so_far, order);
    tester(&mut page, row, so_far);
    page
}

fn outcomes(page: &mut MetricsPage, so_far: SoFar<'_>) {
    type Count = fn(&OutcomeRow) -> u64;
    let all: [(&str, &str, Count); 2] = [
        ("netrig_sip_begun_total", "Started calls, registrations and requests", |row| row.counts.begun),
        ("netrig_sip_succeeded_total", "Successful calls, registrations and requests", |row| {
            row.counts.succeeded
        }),
    ];
    let rows = so_far.outcomes();
    for (name, help, count) in all {
        let values = rows.iter().map(|row| (vec![("what", row.what)], count(row) as f64));
        page.family((name, help, MetricKind::Counter), values);
    }
    // Kinds of attempts without failures have a sample with the value zero, so that the first failure already gives a
    // rate.
    let (unlocated, failures): (Vec<_>, Vec<_>) =
        so_far.failures().into_iter().partition(|row| row.kind == FailureKind::Dns);
    let none = rows.iter().filter(|row| !failures.iter().any(|failure| failure.what == row.what));
    let none = none.map(|row| (vec![("what", row.what), ("kind", ""), ("why", "")], 0.0));
    let some = failures.iter().map(|row| {
        (vec![("what", row.what), ("kind", row.kind.name()), ("why", row.why.as_str())], row.count as f64)
    });
    let family = (
        "netrig_sip_failed_total",
        "Failed calls, registrations and requests by reason",
        MetricKind::Counter,
    );
    page.family(family, none.chain(some));
    let unlocated =
        unlocated.iter().map(|row| (vec![("what", row.what), ("why", row.why.as_str())], row.count as f64));
    page.family(
        (
            "netrig_sip_unlocated_total",
            "Attempts that found no server in the DNS, by reason",
            MetricKind::Counter,
        ),
        unlocated,
    );
}

fn now(page: &mut MetricsPage, row: &SecondRow) {
    let open = ("netrig_sip_open", "Open calls, registrations and requests", MetricKind::Gauge);
    page.value(open, row.open as f64);
    let overdue = ("netrig_sip_overdue", "Open ones that last too long", MetricKind::Gauge);
    page.value(overdue, row.overdue as f64);
    if let Some(rate) = row.intended {
        let intended =
            ("netrig_sip_intended_per_second", "Intended starts in the last second", MetricKind::Gauge);
        page.value(intended, rate);
    }
}

fn thresholds(page: &mut MetricsPage, so_far: SoFar<'_>, order: &LoadOrder) {
    let rows = so_far.judged(&order.plan.thresholds);
    let delays = || rows.iter().filter(|row| row.unit == "us");
    let bounds = delays()
        .map(|row| (vec![("delay", row.name.as_str()), ("statistic", row.statistic)], row.bound / 1e6));
    page.family(("netrig_sip_threshold_seconds", "Upper limit of a delay", MetricKind::Gauge), bounds);
    let least = rows.iter().filter(|row| row.unit != "us");
    let least = least.map(|row| (vec![("what", row.name.as_str())], row.bound));
    page.family(
        ("netrig_sip_threshold_success_ratio", "Lower limit of the share of successes", MetricKind::Gauge),
        least,
    );
    let kept = rows.iter().map(|row| {
        (vec![("of", row.name.as_str()), ("statistic", row.statistic)], f64::from(u8::from(row.kept)))
    });
    page.family(("netrig_sip_threshold_kept", "1 while a threshold is met", MetricKind::Gauge), kept);
}

/// Adds the metrics of the tester itself. Its faults are separate from the failures of the server.
fn tester(page: &mut MetricsPage, row: &SecondRow, so_far: SoFar<'_>) {
    let tester = so_far.tester();
    let is_valid = f64::from(u8::from(row.faults.is_empty()));
    let valid =
        ("netrig_tester_valid", "1 if the tester was not the limit in the last second", MetricKind::Gauge);
    page.value(valid, is_valid);
    let faulty = so_far.faulty() as f64;
    page.value(
        (
            "netrig_tester_faulty_seconds_total",
            "Seconds in which the tester was the limit",
            MetricKind::Counter,
        ),
        faulty,
    );
    let counters = [
        ("netrig_tester_sent_total", "Messages sent", tester.sent),
        ("netrig_tester_received_total", "Messages received", tester.received),
        ("netrig_tester_unsent_total", "Messages that could not be sent", tester.unsent),
        (
            "netrig_tester_dropped_total",
            "Datagrams dropped because a socket of the tester was full",
            tester.dropped,
        ),
        (
            "netrig_tester_omitted_total",
            "Starts omitted because the tester had no room",
            tester.full + tester.busy,
        ),
    ];
    for (name, help, count) in counters {
        page.value((name, help, MetricKind::Counter), count as f64);
    }
    let cpu = ("netrig_tester_cpu_seconds_total", "Processor time of the tester", MetricKind::Counter);
    page.value(cpu, tester.cpu);
    let late = ("netrig_tester_lateness_seconds", "Lateness of starts after their scheduled times");
    histograms(page, late, [(Vec::new(), &tester.lateness)]);
    let own = ("netrig_tester_own_time_seconds", "Time from the arrival of a message until it was handled");
    histograms(page, own, [(Vec::new(), &tester.own_time)]);
}

/// Adds histograms of durations in seconds. Histograms without a sample are left out.
fn histograms<'a>(
    page: &mut MetricsPage,
    (name, help): (&str, &str),
    all: impl IntoIterator<Item = (Vec<(&'a str, &'a str)>, &'a Histogram)>,
) {
    let mut all = all.into_iter().filter(|(_, spans)| spans.count() > 0).peekable();
    if all.peek().is_some() {
        page.heading((name, help, MetricKind::Histogram));
    }
    let [bucket, sum, count] = ["bucket", "sum", "count"].map(|part| format!("{name}_{part}"));
    for (labels, spans) in all {
        let ends = ENDS.map(|end| (end.to_string(), spans.above(Duration::from_secs_f64(end))));
        for (end, above) in ends.into_iter().chain([("+Inf".to_owned(), 0)]) {
            let labels = [&labels[..], &[("le", &end)]].concat();
            page.line(&bucket, &labels, (spans.count() - above) as f64);
        }
        page.line(&sum, &labels, spans.sum());
        page.line(&count, &labels, spans.count() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_that_is_no_longer() {
        let mut spans = Histogram::default();
        [1, 3, 700, 200_000].into_iter().for_each(|ms| spans.record(Duration::from_millis(ms)));
        let mut page = MetricsPage::default();
        histograms(&mut page, ("d_seconds", "spans"), [(vec![("of", "x")], &spans)]);
        histograms(&mut page, ("e_seconds", "none"), [(vec![], &Histogram::default())]);
        let text = page.into_text();
        for line in [
            "# TYPE d_seconds histogram",
            "d_seconds_bucket{of=\"x\",le=\"0.0005\"} 0",
            "d_seconds_bucket{of=\"x\",le=\"0.002\"} 1",
            "d_seconds_bucket{of=\"x\",le=\"0.5\"} 2",
            "d_seconds_bucket{of=\"x\",le=\"1\"} 3",
            "d_seconds_bucket{of=\"x\",le=\"100\"} 3",
            "d_seconds_bucket{of=\"x\",le=\"+Inf\"} 4",
            "d_seconds_sum{of=\"x\"} 200.704",
            "d_seconds_count{of=\"x\"} 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        assert!(!text.contains("e_seconds"));
    }
}
