//! Measures the answers that an unauthenticated host gets from `probe reflect` over UDP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_probe::stamp::{Format, HmacKey};
use netrig_probe::{FarEnd, FarEndOrder};

use crate::it::far_ends::far_end_order;
use netrig_test_support::stranger_table::{self, Stranger, StrangerRow};

/// A packet of a STAMP sender (RFC 8762 section 4.2.1): number, timestamp and error estimate, followed by zeros.
fn stamp(len: usize) -> Vec<u8> {
    let mut packet = vec![0; len];
    packet[3] = 1;
    packet[4..8].copy_from_slice(&[0xee, 0, 0, 1]);
    packet[12..14].copy_from_slice(&[0x80, 1]);
    packet
}

/// A STAMP packet with TLVs (RFC 8972 section 4), each given by its type and the length of its value.
fn with_tlvs(tlvs: &[(u8, u16)]) -> Vec<u8> {
    let mut packet = stamp(44);
    for (kind, len) in tlvs {
        packet.extend_from_slice(&[0x80, *kind, (len >> 8) as u8, *len as u8]);
        packet.resize(packet.len() + usize::from(*len), 0);
    }
    packet
}

fn rows(name: &str, order: FarEndOrder) -> Vec<StrangerRow> {
    let far_end = FarEnd::open(order).unwrap();
    let (to, stop) = (far_end.stamp_addresses()[0], Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&stop);
    let serving = std::thread::spawn(move || far_end.serve(&flag).unwrap());
    // Types and lengths of TLVs: padding, location, time, class of service, direct measurement, access report,
    // follow-up, HMAC, and an unknown type.
    let known: Vec<(u8, u16)> =
        [(1, 16), (2, 16), (3, 16), (4, 4), (5, 12), (6, 4), (7, 16), (8, 16), (99, 8)].into();
    let mut strangers = vec![
        Stranger::new(1, "STAMP", to, |_| stamp(44)),
        Stranger::new(2, "STAMP, 1200 B", to, |_| stamp(1200)),
        Stranger::new(3, "TWAMP Light, 14 B", to, |_| stamp(14)),
        Stranger::new(4, "TWAMP Light, 41 B", to, |_| stamp(41)),
        Stranger::new(5, "STAMP with every TLV", to, |_| with_tlvs(&known)),
        Stranger::new(6, "STAMP with a cut TLV", to, |_| with_tlvs(&known)[..50].to_vec()),
        Stranger::new(7, "authenticated STAMP without the key", to, |_| stamp(112)),
        Stranger::new(8, "garbage", to, |_| vec![0xff; 44]),
        Stranger::new(9, "one byte", to, |_| vec![0]),
        Stranger::new(10, "nothing of the protocol", to, |_| b"GET / HTTP/1.1\r\n\r\n".to_vec()),
    ];
    for (number, (kind, len)) in (11..).zip(known) {
        strangers.push(Stranger::new(number, &format!("STAMP with TLV {kind}"), to, |_| {
            with_tlvs(&[(kind, len)])
        }));
    }
    std::thread::sleep(StdDuration::from_millis(600));
    let rows = strangers.iter().map(|stranger| stranger.row(name)).collect();
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap();
    rows
}

/// A reflector sends at most one answer for each packet, and the answer is never longer than the packet.
#[test]
fn no_far_end_sends_a_stranger_more_than_came() {
    let order = || far_end_order("127.0.0.1");
    let mut all = rows("reflect", order());
    assert!(all.iter().filter(|row| row.datagrams == 1).count() >= 10, "senders of STAMP are answered");
    let mut stateful = order();
    (stateful.settings.stateful, stateful.settings.timestamps) = (true, Format::Ptp);
    all.extend(rows("reflect --stateful", stateful));
    let mut authenticated = FarEndOrder { key: HmacKey::new(&[7; 32]), ..order() };
    authenticated.settings.authenticated = true;
    let authenticated = rows("reflect --authenticated", authenticated);
    assert!(authenticated.iter().all(|row| row.datagrams == 0), "who has no key is not answered");
    all.extend(authenticated);
    assert!(all.iter().all(|row| row.bytes_out <= row.bytes_in && row.datagrams <= 1));
    stranger_table::check("Far ends of probes", &all);
}
