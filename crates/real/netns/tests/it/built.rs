//! Checks with `ip` and `/proc` that a built testbed matches its wiring.

use netrig_netns::Testbed;
use netrig_test_support::{ExperimentText, has, skip_unless};
use serde_json::Value;

use super::common::{build, has_root, id, ip, journals, namespaces, says, three_nodes, wiring};

/// The texts of one field of all values.
fn all<'a>(values: &'a [Value], field: &str) -> Vec<&'a str> {
    values.iter().filter_map(|value| value[field].as_str()).collect()
}

#[test]
fn interfaces_have_their_names_numbers_addresses_and_mtu() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let client = ip(testbed.namespace(0).unwrap(), &["addr"]);
    let interface = |name: &str| {
        let found = client.iter().find(|interface| interface["ifname"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {client:?}"))
    };
    assert!(interface("lo")["flags"].as_array().unwrap().contains(&"UP".into()));
    // The expected addresses are those of the simulator's links (the first is 10.0.0.0/30) and their IPv6 counterparts.
    for (name, mtu, mac, expected) in [
        ("primary", 1500, "02:6e:00:00:00:01", [("10.0.0.1", 30), ("fd00::1", 64)]),
        ("a-very-long-a~1", 1400, "02:6e:00:00:01:01", [("10.0.0.5", 30), ("fd00:0:0:1::1", 64)]),
    ] {
        let found = interface(name);
        assert_eq!((found["mtu"].as_u64(), found["address"].as_str()), (Some(mtu), Some(mac)));
        assert!(found["flags"].as_array().unwrap().contains(&"LOWER_UP".into()), "{found}");
        assert_eq!(found["operstate"], "UP", "{found}");
        let addresses = found["addr_info"].as_array().unwrap();
        let addresses: Vec<_> = addresses
            .iter()
            .map(|address| (address["local"].as_str().unwrap(), address["prefixlen"].as_u64().unwrap()))
            .collect();
        // There is no other address, in particular no link-local address.
        assert_eq!(addresses, expected);
        assert!(found.to_string().find("tentative").is_none(), "{found}");
    }
    let router = ip(testbed.router_namespace(), &["addr"]);
    for name in
        ["primary.a", "primary.b", "a-very-long~1.a", "a-very-long~1.b", "a-very-long~2.a", "a-very-long~2.b"]
    {
        let found = router.iter().find(|interface| interface["ifname"] == name).unwrap();
        assert!(found["flags"].as_array().unwrap().contains(&"LOWER_UP".into()), "{found}");
        assert_eq!(found["operstate"], "UP", "{found}");
        assert_eq!(found["addr_info"].as_array().map(Vec::len), Some(0), "{found}");
        let (index, links) = (found["ifindex"].as_u64().unwrap() as u32, &testbed.wiring().links);
        let end = links.iter().flat_map(|wire| &wire.ends).find(|end| end.index == index).unwrap();
        assert_eq!(end.router_interface.as_deref(), Some(name));
    }
}

#[test]
fn neighbours_are_known_for_good() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    let neighbours = ip(testbed.namespace(2).unwrap(), &["neigh"]);
    let mut told: Vec<_> = neighbours
        .iter()
        .map(|neighbour| ["dev", "dst", "lladdr"].map(|field| neighbour[field].as_str().unwrap_or("")))
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            ["a-very-long-a~2", "10.0.0.9", "02:6e:00:00:02:01"],
            ["a-very-long-a~2", "fd00:0:0:2::1", "02:6e:00:00:02:01"],
            ["primary", "10.0.0.1", "02:6e:00:00:00:01"],
            ["primary", "fd00::1", "02:6e:00:00:00:01"],
        ]
    );
    assert!(
        !neighbours.is_empty() && neighbours.iter().all(|neighbour| neighbour["state"][0] == "PERMANENT"),
        "{neighbours:?}"
    );
}

#[test]
fn routes_follow_the_paths() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    // 10.0.0.10 is the server's address on the second path. The middle node is the next hop on the client's
    // second link.
    for (to, via) in [("10.0.0.10", "10.0.0.6"), ("fd00:0:0:2::2", "fd00:0:0:1::2")] {
        let route = ip(testbed.namespace(0).unwrap(), &["route", "get", to]);
        assert_eq!((all(&route, "gateway"), all(&route, "dev")), (vec![via], vec!["a-very-long-a~1"]));
    }
    let direct = ip(testbed.namespace(0).unwrap(), &["route", "get", "10.0.0.2"]);
    assert_eq!((all(&direct, "dev"), direct[0]["gateway"].as_str()), (vec!["primary"], None));
    // Only the middle node forwards.
    for (node, forwards) in [(0, "0"), (1, "1"), (2, "0")] {
        for key in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let value = says("ip", &["netns", "exec", testbed.namespace(node).unwrap(), "sysctl", "-n", key]);
            assert_eq!(value.trim(), forwards, "{key} of node {node}");
        }
    }
}

/// Two multi-homed paths share their last link. The server has only one address on this link, so the client's kernel
/// must route by the source address.
#[test]
fn a_source_has_its_own_way_where_paths_part() {
    skip_unless!(has_root() && has("ip"));
    let text = ExperimentText::new("parting", "1 s")
        .nodes("client middle server")
        .fifo("first", "client middle", ("10 Mbit/s", "1 ms", 50), "")
        .fifo("second", "client middle", ("10 Mbit/s", "1 ms", 50), "")
        .fifo("last", "middle server", ("10 Mbit/s", "1 ms", 50), "")
        .table("transport.sctp", r#"kind = "sctp", paths = [["first", "last"], ["second", "last"]]"#)
        .flow("bulk", "client server", r#"transport = "sctp", application = { kind = "bulk" }"#)
        .response("sent", "flow.bulk", "goodput")
        .build();
    let (_folder, journals) = journals();
    let testbed = Testbed::build(&journals, &id(), wiring(&text)).unwrap();
    let client = testbed.namespace(0).unwrap();
    for (from, to, dev) in [
        ("10.0.0.1", "10.0.0.10", "first"),
        ("10.0.0.5", "10.0.0.10", "second"),
        ("fd00::1", "fd00:0:0:2::2", "first"),
        ("fd00:0:0:1::1", "fd00:0:0:2::2", "second"),
    ] {
        let route = ip(client, &["route", "get", to, "from", from]);
        assert_eq!(all(&route, "dev"), [dev], "from {from}: {route:?}");
    }
    // Without a source address, packets take the first path.
    assert_eq!(all(&ip(client, &["route", "get", "10.0.0.10"]), "dev"), ["first"]);
}

#[test]
fn two_testbeds_at_once_do_not_disturb_each_other() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let (one, two) = (build(&journals), build(&journals));
    let names = |testbed: &Testbed| namespaces(&format!("netrig-{}", testbed.id()));
    assert_eq!((names(&one).len(), names(&two).len()), (4, 4));
    let before = ip(two.namespace(0).unwrap(), &["addr"]);
    one.remove().unwrap();
    assert_eq!(ip(two.namespace(0).unwrap(), &["addr"]), before);
    assert_eq!(names(&two).len(), 4);
    assert!(netrig_netns::left_behind(&journals).unwrap().is_empty(), "the owner of both lives");
}

#[test]
fn nothing_remains_of_one_that_is_dropped() {
    skip_unless!(has_root());
    let (folder, journals) = journals();
    let testbed = build(&journals);
    let id = testbed.id().to_owned();
    assert_eq!(namespaces(&id).len(), 4);
    drop(testbed);
    assert_eq!(namespaces(&id), [""; 0]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// No traffic must occur in an idle testbed, because a measurement would include it.
#[test]
fn a_testbed_in_which_nobody_speaks_is_silent() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let testbed = build(&journals);
    // Router solicitations and multicast listener reports would arrive within one or two seconds (RFC 4861 section 10:
    // MAX_RTR_SOLICITATION_DELAY 1 s; RFC 3810 section 9.11: 1 s).
    std::thread::sleep(std::time::Duration::from_millis(2500));
    for link in ip(testbed.router_namespace(), &["-s", "link"]) {
        let received = &link["stats64"]["rx"]["packets"];
        assert_eq!(received.as_u64(), Some(0), "{link}");
    }
}

#[test]
fn the_wiring_is_kept() {
    skip_unless!(has_root());
    let (_folder, journals) = journals();
    assert_eq!(build(&journals).wiring(), &wiring(&three_nodes()));
}

/// A direct link consists of one veth pair, of which no end is in the router's namespace. An emulated link between the
/// same nodes consists of two veth pairs.
#[test]
fn a_cable_is_one_pair_and_goes_with_its_testbed() {
    skip_unless!(has_root() && has("ip"));
    let (_folder, journals) = journals();
    let primary = "rate = \"10 Mbit/s\"\ndelay = \"1 ms\"\nqueue = { kind = \"fifo\", packets = 50 }\n";
    let text = three_nodes().replacen(primary, "kind = \"direct\"\nmtu = \"9000 B\"\n", 1);
    let testbed = Testbed::build(&journals, &id(), wiring(&text)).unwrap();
    let router: Vec<_> = ip(testbed.router_namespace(), &["link"]);
    assert!(
        router.iter().all(|interface| !interface["ifname"].as_str().unwrap().starts_with("primary")),
        "{router:?}"
    );
    assert_eq!(router.iter().filter(|interface| interface["linkinfo"]["info_kind"] == "veth").count(), 4);
    for node in [0, 2] {
        let found = ip(testbed.namespace(node).unwrap(), &["link", "show", "dev", "primary"]);
        let (found, index) = (&found[0], if node == 0 { 0 } else { 1 });
        let end = &testbed.wiring().links[0].ends[index];
        assert_eq!((end.node, end.router_interface.as_deref()), (node, None));
        assert_eq!(found["mtu"], 9000);
        assert_eq!(found["ifindex"].as_u64().unwrap() as u32, end.index);
        assert!(found["flags"].as_array().unwrap().contains(&"LOWER_UP".into()), "{found}");
    }
    let id = testbed.id().to_owned();
    testbed.remove().unwrap();
    assert_eq!(namespaces(&id), Vec::<String>::new());
}
