//! A speed server sends no UDP datagrams to an unknown address, even if its datagrams have the token of a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use netrig_speed::iperf3::datagram::{CONNECT, OLD_CONNECT};
use netrig_speed::measure::SpeedCall;
use netrig_speed::protocol::{EchoDatagram, Preamble};

use netrig_test_support::stranger_table::{self, Stranger};

use crate::common::{call_order, order, serving, until};

#[test]
fn no_speed_server_sends_a_stranger_anything() {
    let rows = serving(order(4), |address, server| {
        // The session of another client. The unknown addresses use its token.
        let call =
            SpeedCall::connect(call_order(address, None), &AtomicBool::new(false), &mut |_, _| {}).unwrap();
        let preamble = Preamble { token: call.budget().token, phase: 1, stream: 0 };
        let echo = EchoDatagram { preamble, number: 0, sent_ns: 0, there_ns: [0; 2] };
        let requests = [
            ("preamble of a session", preamble.encode().to_vec()),
            ("echo of a session", echo.encode().to_vec()),
            ("first datagram of iperf3", CONNECT.to_vec()),
            ("first datagram of iperf3 before 3.9", OLD_CONNECT.to_vec()),
            ("a datagram of data", vec![0; 1200]),
            ("one byte", vec![0]),
            ("garbage", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        ];
        let count = requests.len() as u64;
        let strangers: Vec<_> = (1..)
            .zip(requests)
            .map(|(number, (name, bytes))| Stranger::new(number, name, address, |_| bytes))
            .collect();
        let all_read = || server.tally().strays.load(Ordering::Relaxed) >= count;
        until("all have been read", all_read);
        std::thread::sleep(StdDuration::from_millis(200));
        strangers.iter().map(|stranger| stranger.row("speed serve")).collect::<Vec<_>>()
    });
    assert!(rows.iter().all(|row| row.datagrams == 0), "a stranger is not answered");
    stranger_table::check("Speed servers", &rows);
}
