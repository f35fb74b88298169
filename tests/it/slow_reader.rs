//! Transfers to an application that reads more slowly than the network delivers.

use netrig_core::{Subject, quantity};
use netrig_test_support::ExperimentText;
use netrig_tests::record;

/// A transfer over 10 Mbit/s. `reads` specifies how the receiving application reads.
fn transfer(transport: &str, application: &str, reads: &str) -> String {
    ExperimentText::new("slow-reader", "60 s")
        .nodes("a b")
        .fifo("line", "a b", ("10 Mbit/s", "20 ms", 100), "")
        .table("transport.subject", &format!(r#"{transport}, receive_buffer = "64 KB""#))
        .flow("data", "a b", &format!(r#"transport = "subject", application = {application}, {reads}"#))
        .response("goodput", "flow.data", "goodput")
        .build()
}

const BULK: &str = "{ kind = \"bulk\" }";
const TRANSPORTS: [&str; 4] = [
    "kind = \"tcp\"\nprofile = \"rfc\"",
    "kind = \"tcp\"\nprofile = \"linux\"",
    "kind = \"sctp\"\nprofile = \"rfc\"",
    "kind = \"sctp\"\nprofile = \"linux\"",
];

/// The rate at which the application reads after the first ten seconds, B/s.
fn rate(text: &str) -> f64 {
    let [(_, tape)]: [_; 1] = record(text).try_into().ok().expect("one point");
    let read = tape.series(Subject::Flow(0), &quantity::RECEIVED_BYTES);
    let late = read.iter().filter(|(at, _)| at.as_secs_f64() > 10.0).map(|(_, bytes)| bytes);
    late.sum::<f64>() / 50.0
}

/// Reading at 1 Mbit/s is 125 kB/s, and 15 KB every 200 ms are 75 kB/s, independently of the rate of the line.
#[test]
fn goodput_is_the_rate_at_which_the_application_reads() {
    for transport in TRANSPORTS {
        for (reads, expected) in [
            ("reads = \"1 Mbit/s\"", 125_000.0),
            ("reads = { bytes = \"15 KB\", every = \"200 ms\" }", 75_000.0),
        ] {
            let rate = rate(&transfer(transport, BULK, reads));
            assert!((rate / expected - 1.0).abs() < 0.01, "{rate} B/s, {reads}, {transport}");
        }
    }
}

/// A reader that is faster than the network does not limit the transfer, which is more than five times as fast as those
/// above.
#[test]
fn a_reader_that_is_faster_than_the_path_is_no_limit() {
    for transport in TRANSPORTS {
        let [fast, at_once] =
            ["reads = \"1 Gbit/s\"", ""].map(|reads| rate(&transfer(transport, BULK, reads)));
        assert!(at_once > 5.0 * 125_000.0, "{at_once} B/s, {transport}");
        assert!((fast / at_once - 1.0).abs() < 0.05, "{fast} and {at_once} B/s, {transport}");
    }
}

/// A file of 1 MB that is read at 1 Mbit/s takes 8 s. It ends when the last byte has been read, in steps of 10 ms.
#[test]
fn a_file_has_come_when_it_has_been_read() {
    for transport in TRANSPORTS {
        let text = transfer(transport, "{ kind = \"bulk\", bytes = \"1 MB\" }", "reads = \"1 Mbit/s\"");
        let [(_, tape)]: [_; 1] = record(&text).try_into().ok().expect("one point");
        let times = tape.values(Subject::Flow(0), &quantity::OBJECT_TIME);
        assert!(matches!(times[..], [time] if (8.0..8.3).contains(&time)), "{times:?}, {transport}");
        assert_eq!(tape.values(Subject::Flow(0), &quantity::CLOSED), [0.0], "{transport}");
    }
}
