//! A property that must hold for any ICMP message about a packet. `fuzz/` searches for counterexamples, and the test
//! `corpora` replays the corpus.
//!
//! | octets | what |
//! |---|---|
//! | 0 | bits 0 and 1: UDP, ICMP or TCP; bit 2: IPv6; bit 3: the message states the position of the extension |
//! | 1, 2 | type and code |
//! | 3–6 | the MTU |
//! | 7, 8 | the position of the extension |
//! | from 9 | the quote of the packet |

use netrig_core::{Duration, Instant};
use netrig_probe::flow::packet::{FlowMethod, ProbeFlow, Quote};
use netrig_probe::flow::{FlowResponse, ResponseKind};
use netrig_probe::icmp::IcmpVersion;
use netrig_probe::icmp_error::{Extension, IcmpError};
use netrig_probe::path_mtu::search;
use netrig_probe::path_mtu::search::PathMtuSearch;
use netrig_probe::segments::of_syn;
use netrig_probe::trace::course;
use netrig_probe::trace::course::TraceCourse;
use netrig_probe::trace::speed::SpeedPlan;

/// The flow token in the messages of the corpus: `netrig!!`.
const TOKEN: u64 = u64::from_be_bytes(*b"netrig!!");

/// Parsing does not fail. A trace that gets only this message, and an MTU search that gets only this message, both end.
/// They report no packet as received that was not received.
pub fn check(bytes: &[u8]) {
    let Some((&[what, kind, code, a, b, c, d, high, low], repeated)) = bytes.split_first_chunk::<9>() else {
        return;
    };
    let v4 = what & 4 == 0;
    let method = [FlowMethod::Udp, FlowMethod::Icmp, FlowMethod::Tcp, FlowMethod::Udp][usize::from(what & 3)];
    let (source, target) = if v4 {
        ("192.0.2.1:50000", "198.51.100.7:33434")
    } else {
        ("[2001:db8::1]:50000", "[2001:db8:1::7]:33434")
    };
    let [source, target] = [source, target].map(|text| text.parse().expect("an address"));
    let flow = ProbeFlow { method, source, target, token: TOKEN };
    let mtu = u32::from_be_bytes([a, b, c, d]);
    let version = if v4 { IcmpVersion::V4 } else { IcmpVersion::V6 };
    let error = IcmpError::of(version, kind, code, mtu);
    let place = (what & 8 != 0).then(|| usize::from(u16::from_be_bytes([high, low])));
    let extension = Extension::find(repeated, place, flow.unrepeated()).unwrap_or_default();
    assert!(extension.labels.len() <= 16 && extension.others.len() <= 16);
    assert!(extension.labels.iter().all(|label| label.label < 1 << 20 && label.class < 8));
    assert!(of_syn(repeated).is_none_or(|mss| mss <= 0xFFFF));
    let quote = flow.quoted(repeated);
    if let Some((number, how)) = flow.answered(repeated) {
        trace(&flow, Quote::Of(number), ResponseKind::Answer(how), &extension);
    }
    trace(&flow, quote, ResponseKind::IcmpError(error), &extension);
    search_with(quote, mtu);
}

/// Runs a trace in which every packet gets this response.
fn trace(flow: &ProbeFlow, quote: Quote, kind: ResponseKind, extension: &Extension) {
    let plan = course::TracePlan {
        first: 1,
        last: 6,
        each: 2,
        length: 60,
        wait: Duration::from_millis(100),
        gap: Duration::from_millis(1),
        in_flight: 4,
        speed: SpeedPlan::new(576, 1500, 5, 1),
    };
    let mut course = TraceCourse::new(plan, flow.target.ip());
    let mut now = Instant::ZERO;
    for _ in 0..10_000 {
        match course.next(now, now.as_nanos()) {
            course::TraceStep::Send(probe) => {
                assert!(!flow.packet(probe.number, probe.length).is_empty());
                let labels = extension.labels.clone();
                let (from, at) = (flow.target.ip(), now.as_nanos());
                let response = FlowResponse { from, kind, at, stamped: true, ttl: None, length: 28, labels };
                match quote {
                    Quote::Of(number) => drop(course.record(number, response)),
                    Quote::Unnamed => course.record_unnamed(now, response),
                    Quote::Foreign => {}
                }
            }
            course::TraceStep::Wait(until) => {
                assert!(until > now);
                now = until;
            }
            course::TraceStep::Over => return,
        }
    }
    panic!("it does not end");
}

/// Runs an MTU search in which every packet gets this report, if the report quotes the packet, and no other response.
fn search_with(quote: Quote, mtu: u32) {
    let plan = search::PathMtuPlan::new(68, 1200, 1500, 2, Duration::from_millis(100)).expect("a plan");
    let (mut search, mut now) = (PathMtuSearch::new(plan), Instant::ZERO);
    for _ in 0..10_000 {
        match search.next(now) {
            search::PathMtuStep::Send { number, size } => {
                assert!((68..=1500).contains(&size), "{size}");
                if quote != Quote::Foreign {
                    search.too_long(number, mtu, [192, 0, 2, 9].into());
                }
                if let Quote::Of(number) = quote {
                    search.too_long(number, mtu, [192, 0, 2, 9].into());
                }
            }
            search::PathMtuStep::Wait(until) => {
                assert!(until > now);
                now = until;
            }
            search::PathMtuStep::Over => {
                assert_eq!(search.confirmed(), None, "no word of another makes a packet come through");
                return;
            }
        }
    }
    panic!("it does not end");
}
