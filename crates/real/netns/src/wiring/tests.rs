use std::collections::BTreeSet;
use std::sync::Arc;

use netrig_experiment::{Experiment, Scenario};

use super::*;

/// A scenario with the nodes a to d. `links` contains the name, the ends and further keys of each link, and
/// `paths` the keys of each flow.
fn scenario(head: &str, links: &[(&str, &str, &str)], paths: &[&str]) -> Arc<Scenario> {
    let mut text = format!("format = 1\nname = \"x\"\nquestion = \"?\"\nduration = \"1 s\"\n{head}\n");
    for node in ["a", "b", "c", "d"] {
        text += &format!("[node.{node}]\n");
    }
    for (name, ends, more) in links {
        let ends: Vec<_> = ends.chars().map(String::from).collect();
        text +=
            &format!("[link.{name}]\nbetween = {ends:?}\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n{more}\n");
        text += "queue = { kind = \"fifo\", packets = 50 }\n";
    }
    text += "[transport.udp]\nkind = \"udp\"\n[response.sent]\nof = \"flow.f0\"\nmetric = \"goodput\"\n";
    for (n, path) in paths.iter().enumerate() {
        text += &format!("[flow.f{n}]\ntransport = \"udp\"\n{path}\n");
        text += "application = { kind = \"cbr\", size = \"100 B\", interval = \"10 ms\" }\n";
    }
    let experiment = Experiment::parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    experiment.plan().scenario(0).unwrap_or_else(|problems| panic!("{problems}"))
}

const DIRECT: &str = "from = \"a\"\nto = \"b\"";

/// The addresses are those of the scenario, so captures of different substrates can be compared.
#[test]
fn addresses_are_those_of_the_scenario_and_their_counterparts() {
    let links = [("one", "ab", ""), ("two", "bc", ""), ("three", "cd", "")];
    let [v4, v6] = ["ip = 4", "ip = 6"].map(|head| scenario(head, &links, &[DIRECT]));
    let [wiring, same] = [&v4, &v6].map(|scenario| Wiring::new(scenario).unwrap());
    assert_eq!(wiring, same);
    for (n, wire) in wiring.links.iter().enumerate() {
        for (place, end) in wire.ends.iter().enumerate() {
            assert_eq!(end.addresses, [v4.links[n].addresses[place], v6.links[n].addresses[place]]);
            assert_eq!(end.node, v4.links[n].ends[place]);
        }
    }
}

#[test]
fn names_fit_linux_and_differ() {
    let long = ["x23456789012345", "x234567890123456", "x2345678901234567", "lo", "all", "default", "x"];
    let links: Vec<_> = long.iter().map(|name| (*name, "ab", "")).collect();
    let wiring = Wiring::new(&scenario("", &links, &[DIRECT])).unwrap();
    let ends = || wiring.links.iter().flat_map(|wire| &wire.ends);
    let names: Vec<_> = wiring.links.iter().map(|wire| wire.ends[0].interface.as_str()).collect();
    assert_eq!(
        names,
        ["x23456789012345", "x234567890123~1", "x234567890123~2", "lo~3", "all~4", "default~5", "x"]
    );
    let router: BTreeSet<_> = ends().filter_map(|end| end.router_interface.as_deref()).collect();
    assert_eq!(router.len(), 2 * long.len());
    assert!(router.contains("x2345678901~0.a") && router.contains("lo~3.b"), "{router:?}");
    // IFNAMSIZ is 16 with the NUL byte.
    assert!(ends().all(|end| end.interface.len() < 16) && router.iter().all(|name| name.len() < 16));
    let macs: BTreeSet<_> = ends().map(|end| end.mac).collect();
    let indices: BTreeSet<_> = ends().map(|end| end.index).collect();
    assert_eq!((macs.len(), indices.len()), (2 * long.len(), 2 * long.len()));
    // Bit 0 of the first octet marks group addresses, bit 1 locally administered addresses (IEEE 802).
    assert!(macs.iter().all(|mac| mac[0] & 0b11 == 0b10));
}

#[test]
fn a_link_too_narrow_for_ipv6_has_ipv4_alone() {
    let links = [("one", "ab", "mtu = \"1279 B\""), ("two", "bc", "mtu = \"1280 B\"")];
    let path = "from = \"a\"\nto = \"c\"\npaths = [[\"one\", \"two\"]]";
    let wiring = Wiring::new(&scenario("ip = 4", &links, &[path])).unwrap();
    let addresses = |wire: usize| wiring.links[wire].ends[0].addresses.len();
    assert_eq!((addresses(0), addresses(1)), (1, 2));
    assert!(wiring.nodes.iter().flat_map(|node| &node.routes).all(|way| way.to.is_ipv4()));
    let narrow = Wiring::new(&scenario("ip = 6", &links, &[path]));
    assert!(matches!(narrow, Err(WiringError::Mtu { mtu: 1279, needs: 1280, .. })), "{narrow:?}");
    let tiny = Wiring::new(&scenario("ip = 4", &[("one", "ab", "mtu = \"67 B\"")], &[DIRECT]));
    assert!(matches!(tiny, Err(WiringError::Mtu { mtu: 67, needs: 68, .. })), "{tiny:?}");
}

/// One direction of a link may have a smaller MTU. The link drops packets that are too long for it, as in the
/// simulator.
#[test]
fn the_interfaces_of_a_link_fit_its_wider_direction() {
    let links = [("one", "ab", "mtu = \"1400 B\"\nreverse = { mtu = \"9000 B\" }"), ("two", "ab", "")];
    let wiring = Wiring::new(&scenario("", &links, &[DIRECT])).unwrap();
    assert_eq!(wiring.links.iter().map(|wire| wire.mtu).collect::<Vec<_>>(), [9000, 1500]);
}

#[test]
fn ways_lead_there_and_back_and_nodes_in_between_forward() {
    let links = [("one", "ab", ""), ("two", "bc", ""), ("three", "cd", "")];
    let wiring = Wiring::new(&scenario("", &links, &["from = \"a\"\nto = \"d\""])).unwrap();
    let forwards: Vec<_> = wiring.nodes.iter().map(|node| node.forwards).collect();
    assert_eq!(forwards, [false, true, true, false]);
    let routes = |node: usize| -> Vec<_> {
        let v4 = wiring.nodes[node].routes.iter().filter(|way| way.to.is_ipv4());
        v4.map(|way| (way.from, way.to.to_string(), way.via.to_string(), way.link)).collect()
    };
    // a 10.0.0.1 – 10.0.0.2 b 10.0.0.5 – 10.0.0.6 c 10.0.0.9 – 10.0.0.10 d
    let way = |to: &str, via: &str, link| (None, to.to_owned(), via.to_owned(), link);
    assert_eq!(routes(0), [way("10.0.0.10", "10.0.0.2", 0)]);
    assert_eq!(routes(1), [way("10.0.0.10", "10.0.0.6", 1)]);
    assert_eq!(routes(2), [way("10.0.0.1", "10.0.0.5", 1)]);
    assert_eq!(routes(3), [way("10.0.0.1", "10.0.0.9", 2)]);
}

#[test]
fn paths_that_a_kernel_cannot_tell_apart_are_refused() {
    // Both paths lead from a over b and c to d. They use different links between b and c.
    let links = [("in", "ab", ""), ("up", "bc", ""), ("down", "bc", ""), ("out", "cd", "")];
    let path = |middle: &str| format!("from = \"a\"\nto = \"d\"\npaths = [[\"in\", \"{middle}\", \"out\"]]");
    let refused = Wiring::new(&scenario("", &links, &[&path("up"), &path("down")]));
    assert!(matches!(&refused, Err(WiringError::Parting { node, .. }) if node == "b"), "{refused:?}");
    assert!(Wiring::new(&scenario("", &links, &[&path("up"), &path("up")])).is_ok());
}
