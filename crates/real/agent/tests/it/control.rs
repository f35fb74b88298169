//! Tests of the control protocol with a controller and an agent at the two ends of a stream.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use netrig_agent::control::{ControlError, ControlReply, ControlRequest, Epoch, VERSION, order_frames};
use netrig_agent::{Agent, CarrierOptions, EndOrder, RunOrder, Samples};
use netrig_core::Duration;
use netrig_host::frames::{FrameError, read_frame, write_frame};
use netrig_traffic::FlowSide;

use crate::it::common;

/// A controller's end of the stream, and the agent at the other end.
struct Controller {
    stream: UnixStream,
    agent: JoinHandle<Result<(), ControlError>>,
}

impl Controller {
    fn new() -> Self {
        let (stream, other) = UnixStream::pair().unwrap();
        let reader = other.try_clone().unwrap();
        Self { stream, agent: std::thread::spawn(move || Agent::default().serve(reader, other)) }
    }

    fn greeted() -> Self {
        let mut controller = Self::new();
        controller.send(&ControlRequest::Hello { version: VERSION });
        assert_eq!(controller.receive(), ControlReply::Hello { version: VERSION });
        controller
    }

    fn send(&mut self, request: &ControlRequest) {
        write_frame(&mut self.stream, request).unwrap();
    }

    fn receive(&mut self) -> ControlReply {
        read_frame(&mut self.stream).unwrap().unwrap()
    }

    fn receive_error(&mut self) -> String {
        match self.receive() {
            ControlReply::Error { what } => what,
            other => panic!("{other:?}"),
        }
    }

    /// Closes the stream and returns the result of the agent.
    fn end(self) -> Result<(), ControlError> {
        drop(self.stream);
        self.agent.join().unwrap()
    }
}

/// A run with both ends of a flow that sends a datagram every 1 ms.
fn run(duration_ns: u64) -> RunOrder {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = SocketAddr::from(([127, 0, 0, 1], port));
    let application = r#"{ "cbr": { "interval": "1 ms", "size": "100 B" } }"#;
    let carrier = CarrierOptions::Udp(Default::default());
    let stop = Duration::from_nanos(duration_ns / 2);
    let end = |side| EndOrder {
        flow: 4,
        name: "probe".into(),
        dscp: 0,
        ..common::end(side, application, carrier.clone(), server, stop)
    };
    let ends = vec![end(FlowSide::Client), end(FlowSide::Server)];
    RunOrder { sample_every_ns: 50_000_000, ..common::order(Duration::from_nanos(duration_ns), ends) }
}

/// Prepares and starts a run.
fn started(controller: &mut Controller, duration_ns: u64) {
    order_frames(run(duration_ns)).for_each(|request| controller.send(&request));
    let ControlReply::Prepared { monotonic_ns, realtime_ns, .. } = controller.receive() else {
        panic!("not prepared")
    };
    assert!(realtime_ns > monotonic_ns);
    controller.send(&ControlRequest::Start { at: Epoch::Monotonic(monotonic_ns + 10_000_000) });
}

#[test]
fn a_run_is_prepared_started_and_reported() {
    let mut controller = Controller::greeted();
    // Two runs, because the second checks that the addresses of the first run are free again.
    for _ in 0..2 {
        started(&mut controller, 200_000_000);
        let mut samples = Samples::new();
        let mut ends = Vec::new();
        loop {
            match controller.receive() {
                ControlReply::Samples { columns } => {
                    columns.iter().for_each(|column| samples.extend(column.samples().unwrap()));
                }
                ControlReply::Report { end } => ends.push(*end),
                ControlReply::Reported => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(ends.iter().map(|end| end.side).collect::<Vec<_>>(), FlowSide::BOTH);
        assert_eq!(ends[0].source.as_ref().unwrap().sent, 99);
        let sent: f64 = samples
            .iter()
            .filter(|(_, sample)| sample.quantity.name == "datagrams_sent")
            .map(|(_, sample)| sample.value)
            .sum();
        assert_eq!(sent, 99.0);
    }
    controller.send(&ControlRequest::Bye);
    assert!(controller.end().is_ok());
}

#[test]
fn a_run_can_be_ended_before_its_time() {
    let mut controller = Controller::greeted();
    started(&mut controller, u64::MAX / 4);
    controller.send(&ControlRequest::Stop);
    while controller.receive() != ControlReply::Reported {}
    assert!(controller.end().is_ok());
}

#[test]
fn a_stream_that_ends_gives_the_run_up() {
    let mut controller = Controller::greeted();
    started(&mut controller, u64::MAX / 4);
    // The agent must return. Its result does not matter, because it cannot send its last replies.
    let _ = controller.end();
}

#[test]
fn another_version_is_told_and_left() {
    let mut controller = Controller::new();
    controller.send(&ControlRequest::Hello { version: VERSION + 1 });
    assert!(controller.receive_error().contains(&format!("version {}", VERSION + 1)));
    assert!(matches!(controller.end(), Err(ControlError::Version(version)) if version == VERSION + 1));
}

#[test]
fn requests_that_mean_nothing_now_are_refused_and_the_talk_goes_on() {
    let mut controller = Controller::new();
    let prepare = || ControlRequest::Prepare { run: RunOrder { ends: vec![], ..run(1) } };
    controller.send(&prepare());
    assert_eq!(controller.receive_error(), "prepare is not allowed before the hello");
    controller.send(&ControlRequest::Hello { version: VERSION });
    controller.receive();
    controller.send(&ControlRequest::Start { at: Epoch::Monotonic(0) });
    assert_eq!(controller.receive_error(), "start is not allowed before a run is prepared");
    controller.send(&ControlRequest::Controls { controls: vec![] });
    assert_eq!(controller.receive_error(), "a message of controls is not allowed without associations");
    let sysctls = vec![("kernel.hostname".into(), "x".into())];
    controller.send(&ControlRequest::Prepare { run: RunOrder { ends: vec![], sysctls, ..run(1) } });
    assert!(controller.receive_error().contains("is not a network setting"));
    started(&mut controller, u64::MAX / 4);
    controller.send(&prepare());
    assert_eq!(controller.receive_error(), "prepare is not allowed during a run");
    controller.send(&ControlRequest::Stop);
    while controller.receive() != ControlReply::Reported {}
    assert!(controller.end().is_ok());
}

#[test]
fn bytes_that_are_no_frame_end_the_talk() {
    use std::io::Write;
    let mut controller = Controller::greeted();
    controller.stream.write_all(&[0, 0, 0, 3, b'"', b'?', b'"']).unwrap();
    assert!(controller.receive_error().contains("malformed frame"));
    assert!(matches!(controller.end(), Err(ControlError::Frame(FrameError::Malformed(_)))));
}
