use super::*;
use crate::router::parcel::ETHERNET;

/// An IPv4 packet with UDP from 10.0.0.1:5000 to 10.0.0.6:7000, or a fragment of such a packet. The arguments are the
/// identification, the fragment offset, whether more fragments follow, and the number of bytes after the IP header.
fn packet(id: u16, offset: u16, more: bool, len: u16) -> Parcel {
    with_flags(id, (offset / 8) | if more { 0x2000 } else { 0 }, 64, len)
}

/// Like [`packet`], with the given value of the flags and fragment offset fields, and the given TTL.
fn with_flags(id: u16, flags: u16, hops: u8, len: u16) -> Parcel {
    let mut frame = vec![0; ETHERNET + 20 + usize::from(len)];
    frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    let packet = &mut frame[ETHERNET..];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(20 + len).to_be_bytes());
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[6..8].copy_from_slice(&flags.to_be_bytes());
    (packet[8], packet[9]) = (hops, 17);
    packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 6]);
    if flags & 0x1fff == 0 {
        packet[20..24].copy_from_slice(&[0x13, 0x88, 0x1b, 0x58]);
    }
    Parcel::read(&frame, 1, None).unwrap()
}

fn node(name: &str) -> NodePassage {
    let (to_forward, forwarded) = (PassedTraffic::default(), PassedTraffic::default());
    let constrained = false;
    NodePassage {
        name: name.into(),
        fits: 1500,
        shuts: false,
        has_cable: false,
        constrained,
        to_forward,
        forwarded,
    }
}

/// The counters for the topology a (10.0.0.1) – R – b (10.0.0.6), with the flow `x` from a to b.
fn passages() -> Passages {
    let owners = [([10, 0, 0, 1], 0), ([10, 0, 0, 2], 1), ([10, 0, 0, 5], 1), ([10, 0, 0, 6], 2)];
    let end = |node| EndPassage { flow: "x".into(), node, ..EndPassage::default() };
    Passages {
        nodes: ["a", "R", "b"].map(node).into(),
        owners: owners.map(|(octets, node)| (IpAddr::from(octets), node)).into(),
        flows: [(SocketAddr::from(([10, 0, 0, 6], 7000)), (0, [0, 2]))].into(),
        ends: [((0, FlowSide::Client), end(0)), ((0, FlowSide::Server), end(2))].into(),
        on_cables: Vec::new(),
        pending: VecDeque::new(),
        offered: Fragments::default(),
        handed: Fragments::default(),
        end: ms(1000),
    }
}

fn ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

/// The faults that are reported if the sockets have these counts.
fn faults(passages: Passages, sent: u64, received: u64, dropped: u64) -> Vec<String> {
    let report = passages.report(ms(2000), ms(1000));
    let at = |side, socket| {
        report.ends[&(0, side)]
            .faults(&report.nodes[if side == FlowSide::Client { 0 } else { 2 }].name, &socket)
    };
    let client = at(FlowSide::Client, SocketPassage { sent, ..SocketPassage::default() });
    let server = at(FlowSide::Server, SocketPassage { received, dropped, ..SocketPassage::default() });
    report.nodes.iter().filter_map(NodePassage::fault).chain(client).chain(server).collect()
}

/// Passes a packet from a to R and, unless `lost_in_r` is set, on to b.
fn pass(passages: &mut Passages, at: Instant, parcel: &Parcel, lost_in_r: bool) {
    assert!(!passages.offered(0, parcel));
    assert!(passages.handed(at, 1, parcel));
    if !lost_in_r {
        assert!(passages.offered(1, parcel));
        assert!(!passages.handed(at, 2, parcel));
    }
}

#[test]
fn what_a_node_does_not_send_on_is_its_own_loss() {
    let mut all = passages();
    (0..10).for_each(|n| pass(&mut all, ms(n.into()), &packet(n, 0, false, 100), false));
    assert_eq!(faults(all, 10, 9, 1), [""; 0]);
    let mut some = passages();
    (0..10).for_each(|n| pass(&mut some, ms(n.into()), &packet(n, 0, false, 100), n == 4));
    assert_eq!(
        faults(some, 10, 9, 0),
        ["node `R` did not forward 1 of 10 packets that links delivered to it"]
    );
}

#[test]
fn what_sockets_say_must_be_what_links_say() {
    let mut all = passages();
    (0..10).for_each(|n| pass(&mut all, ms(n.into()), &packet(n, 0, false, 100), false));
    assert_eq!(
        faults(all, 12, 7, 1),
        [
            "flow `x`: 2 of 12 datagrams that node `a` sent did not reach its link",
            "flow `x`: 2 of 10 datagrams that links delivered to node `b` did not reach their socket"
        ]
    );
}

#[test]
fn a_datagram_in_fragments_has_passed_when_all_of_them_have() {
    let fragments =
        |id| [packet(id, 0, true, 1480), packet(id, 1480, true, 1480), packet(id, 2960, false, 48)];
    let mut all = passages();
    for id in 0..4 {
        // The order of the fragments has no effect.
        let mut fragments = fragments(id);
        fragments.reverse();
        fragments.iter().for_each(|parcel| pass(&mut all, ms(1), parcel, false));
    }
    assert_eq!(faults(all, 4, 4, 0), [""; 0]);
    let mut cut = passages();
    for (n, parcel) in fragments(1).iter().enumerate() {
        pass(&mut cut, ms(1), parcel, n == 2);
    }
    assert_eq!(
        faults(cut, 1, 0, 0),
        ["node `R` did not forward 48 B of 3008 in the fragments that links delivered to it"]
    );
}

#[test]
fn what_is_on_its_way_at_the_end_is_not_missed() {
    let mut late = passages();
    let parcel = packet(1, 0, false, 100);
    late.handed(ms(1980), 1, &parcel);
    late.handed(ms(1995), 2, &parcel);
    assert_eq!(faults(late, 0, 0, 0), [""; 0]);
    let mut lost = passages();
    lost.handed(ms(1979), 1, &parcel);
    assert_eq!(faults(lost, 0, 0, 0), ["node `R` did not forward 1 of 1 packets that links delivered to it"]);
}

#[test]
fn who_was_told_to_end_early_hears_no_more() {
    for (end, handed) in [(500, 0), (1000, 1)] {
        let mut passages = passages();
        passages.handed(ms(600), 2, &packet(1, 0, false, 100));
        let report = passages.report(ms(1000), ms(end));
        assert_eq!(report.ends[&(0, FlowSide::Server)].handed, handed);
    }
}

#[test]
fn a_node_answers_what_may_go_no_further() {
    let mut last_hop = passages();
    last_hop.handed(ms(1), 1, &with_flags(1, 0, 1, 100));
    // 0x4000 is the flag "Don't fragment".
    last_hop.handed(ms(1), 1, &with_flags(2, 0x4000, 64, 1500));
    assert_eq!(faults(last_hop, 0, 0, 0), [""; 0]);
    let mut goes_on = passages();
    goes_on.handed(ms(1), 1, &with_flags(1, 0, 2, 100));
    goes_on.handed(ms(1), 1, &with_flags(2, 0x4000, 64, 1480));
    assert_eq!(
        faults(goes_on, 0, 0, 0),
        ["node `R` did not forward 2 of 2 packets that links delivered to it"]
    );
}

#[test]
fn on_cables_a_socket_has_what_the_other_sent() {
    let socket =
        |sent, received, dropped| SocketPassage { sent, received, dropped, ..SocketPassage::default() };
    assert_eq!(fault_on_cables("x", &socket(10, 0, 0), &socket(0, 8, 2)), None);
    let lost = fault_on_cables("x", &socket(10, 0, 0), &socket(0, 8, 1)).unwrap();
    assert_eq!(
        lost,
        "flow `x`: 1 of 10 datagrams that were sent over direct links did not reach their socket"
    );
}
