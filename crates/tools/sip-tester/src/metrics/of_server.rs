//! Metrics of a server for Prometheus.

use std::collections::BTreeMap;

use netrig_core::prometheus::{MetricKind, MetricsPage};
use netrig_host::Reasons;
use netrig_sip_net::server::Tally;

/// The page with all counters of a server.
pub fn page(server: &str, tally: &Tally) -> MetricsPage {
    let mut page = MetricsPage::default();
    let labels = vec![("server", server), ("version", env!("CARGO_PKG_VERSION"))];
    page.family(("netrig_sip_server_info", "The server", MetricKind::Gauge), [(labels, 1.0)]);
    let (came, left) = (&tally.received, &tally.sent);
    let requests = [("received", &came.requests), ("sent", &left.requests)];
    let name = ("netrig_sip_server_requests_total", "Requests received and sent", MetricKind::Counter);
    page.family(name, requests.into_iter().flat_map(|(way, counts)| by("method", way, counts)));
    let responses = [("received", &came.responses), ("sent", &left.responses)];
    let name = ("netrig_sip_server_responses_total", "Responses received and sent", MetricKind::Counter);
    page.family(name, responses.into_iter().flat_map(|(way, counts)| by("class", way, counts)));
    let connections = &tally.connections;
    let kinds = [
        ("accepted", connections.accepted),
        ("refused", connections.refused),
        ("opened", connections.opened),
    ];
    let name = ("netrig_sip_server_connections_total", "Connections", MetricKind::Counter);
    page.family(name, kinds.map(|(how, count)| (vec![("how", how)], count as f64)));
    for (name, help, reasons) in [
        ("netrig_sip_server_broken_connections_total", "Connections that failed", &connections.broken),
        ("netrig_sip_server_unsent_total", "Messages that could not be sent", &tally.unsent),
        ("netrig_sip_server_unreadable_total", "Received messages that are not SIP", &tally.unreadable),
    ] {
        page.family((name, help, MetricKind::Counter), of(reasons));
    }
    let drops = (
        "netrig_sip_server_socket_drops_total",
        "Datagrams dropped because a socket was full",
        MetricKind::Counter,
    );
    page.value(drops, tally.socket_drops as f64);
    page
}

type Values<'a> = Vec<(Vec<(&'a str, &'a str)>, f64)>;

fn by<'a>(label: &'a str, way: &'a str, counts: &BTreeMap<&'static str, u64>) -> Values<'a> {
    counts.iter().map(|(name, count)| (vec![("way", way), (label, *name)], *count as f64)).collect()
}

fn of(reasons: &Reasons) -> Values<'_> {
    reasons.0.iter().map(|(why, count)| (vec![("why", why.as_str())], *count as f64)).collect()
}
