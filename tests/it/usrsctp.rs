//! Interoperability of netrig's SCTP with usrsctp. Each is the sender and the receiver, and each initiates the
//! association.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use netrig_core::{CloseReason, DropReason, Duration, Fraction, Instant, Rate, Seeds};
use netrig_interop::{
    Action, Capture, Driver, Findings, Network, Outcome, Peer, Plan, STREAMS, Side, Step, Tools, User,
};
use netrig_link::queue::fifo::Fifo;
use netrig_link::{Bernoulli, LineSettings, Loss, Queue};
use netrig_transport::sctp::{Config, RetransmitTo};
use netrig_transport::{Incident, PathId, PathState, Profile};

/// Bytes of a transfer: 10 MB on five streams.
const SIZE: u64 = 10_000_000;

/// Minimum number of packets of a transfer: a packet of 1500 B has at most 1452 B of user data.
const FEWEST: u64 = SIZE / 1452;

/// Maximum length of a message, bytes, so that most messages take several chunks.
const LONGEST_MESSAGE: usize = 8000;

/// The type of an ABORT chunk (RFC 9260 section 3.2).
const ABORT: u8 = 6;

/// One transfer of [`SIZE`] bytes.
struct Transfer {
    sender: Side,
    /// The side that initiates the association.
    opener: Side,
    /// The side that shuts the association down: the sender after it has handed over all data, or the receiver after it
    /// has received all.
    closer: Side,
    paths: u8,
    /// Share of packets lost on each path in each direction.
    loss: f64,
    config: Config,
    peer_path_max_retrans: Option<u16>,
    /// An event after this number of bytes.
    middle: Option<(u64, Middle)>,
}

/// An event during a transfer.
#[derive(Clone, Copy, PartialEq)]
enum Middle {
    /// The receiver's interface on path 0 goes down.
    PathFails,
    /// The receiver aborts.
    Abort,
}

/// The results of a transfer.
struct Report {
    outcome: Outcome,
    peer: Peer,
    findings: Findings,
    sent: Vec<Arc<[u8]>>,
    received: Vec<Vec<u8>>,
}

impl Transfer {
    /// A transfer over one path without loss. The sender initiates the association and shuts it down.
    fn new(sender: Side) -> Self {
        Self {
            sender,
            opener: sender,
            closer: sender,
            paths: 1,
            loss: 0.0,
            config: config(Profile::Rfc),
            peer_path_max_retrans: None,
            middle: None,
        }
    }

    /// A transfer over two paths. The primary path fails halfway.
    fn failing(sender: Side) -> Self {
        Self { paths: 2, middle: Some((SIZE / 2, Middle::PathFails)), ..Self::new(sender) }
    }

    fn receiver(&self) -> Side {
        if self.sender == Side::Netrig { Side::Peer } else { Side::Netrig }
    }

    /// Runs the transfer.
    fn run(&self, tools: &Tools, name: &str) -> Report {
        let network = Arc::new(Network::new(self.paths));
        let sent = content();
        let folder = network.folder().join("streams");
        fs::create_dir(&folder).expect("a folder can be made");
        for (stream, data) in sent.iter().enumerate().filter(|_| self.sender == Side::Peer) {
            fs::write(folder.join(stream.to_string()), data).expect("a file can be written");
        }
        // The capture is at the sender, whose interfaces stay up when a path fails.
        let capture = Capture::start(&network, self.sender);
        let (plan, user, line) = (self.plan(&folder), self.user(&network, &sent), line(self.loss));
        let (mut peer, driver);
        if self.opener == Side::Netrig {
            peer = Peer::start(tools, &network, &plan);
            driver = Driver::client(&network, &self.config, &line, 1, user);
        } else {
            driver = Driver::server(&network, &self.config, &line, 1, user);
            peer = Peer::start(tools, &network, &plan);
        }
        let outcome = driver.run(|| peer.is_over());
        let findings = capture.findings();
        let received = if self.sender == Side::Netrig { read(&folder) } else { outcome.received.clone() };
        let report = Report { outcome, peer, findings, sent, received };
        report.tell(name);
        report
    }

    fn plan(&self, folder: &Path) -> Plan {
        let sends = self.sender == Side::Peer;
        let closes = self.closer == Side::Peer;
        let aborts = self.middle.filter(|(_, what)| *what == Middle::Abort && !sends);
        Plan {
            connects: self.opener == Side::Peer,
            sends: sends.then(|| folder.to_owned()),
            receives: (!sends).then(|| folder.to_owned()),
            closes: closes && sends,
            shutdown_after: (closes && !sends).then_some(SIZE),
            abort_after: aborts.map(|(after, _)| after),
            longest_message: Some(LONGEST_MESSAGE),
            path_max_retrans: self.peer_path_max_retrans,
        }
    }

    fn user(&self, network: &Arc<Network>, content: &[Arc<[u8]>]) -> User {
        let (sends, closes) = (self.sender == Side::Netrig, self.closer == Side::Netrig);
        let receiver = self.receiver();
        let step = match self.middle {
            Some((after, Middle::PathFails)) => {
                let network = Arc::clone(network);
                Some(Step { after, then: Action::Call(Box::new(move || network.set_down(receiver, 0))) })
            }
            Some((after, Middle::Abort)) if !sends => Some(Step { after, then: Action::Abort }),
            _ => (closes && !sends).then_some(Step { after: SIZE, then: Action::Close }),
        };
        User {
            sends: if sends { content.to_vec() } else { Vec::new() },
            longest_message: LONGEST_MESSAGE,
            closes: closes && sends,
            step,
        }
    }

    /// Checks a complete transfer: all bytes arrive in order on each stream, and the association is shut down orderly
    /// at both ends.
    fn assert_complete(&self, report: &Report) {
        let Report { outcome, peer, findings, sent, received } = report;
        for (stream, (sent, received)) in sent.iter().zip(received).enumerate() {
            assert_eq!(sent.len(), received.len(), "bytes on stream {stream}");
            let differs = sent.iter().zip(received).position(|(sent, received)| sent != received);
            assert_eq!(differs, None, "first wrong byte on stream {stream}");
        }
        assert_eq!(outcome.closed, Some(CloseReason::Finished));
        assert!(peer.when("over shutdown complete").is_some(), "{:?}", peer.said());
        assert!(peer.when(&format!("up in {STREAMS} out {STREAMS}")).is_some(), "{:?}", peer.said());
        let closed_by_netrig = peer.when("shutdown event").is_some();
        assert_eq!(closed_by_netrig, self.closer == Side::Netrig, "{:?}", peer.said());
        report.assert_sound(FEWEST);
        // There are SHUTDOWN, SHUTDOWN ACK and SHUTDOWN COMPLETE, and no ABORT.
        assert!([7, 8, 14].iter().all(|kind| findings.chunk_types.contains(kind)), "{findings:?}");
        assert!(!findings.chunk_types.contains(&ABORT), "{findings:?}");
    }
}

impl Report {
    /// Checks that Wireshark finds no errors in at least `fewest` packets, and that netrig could parse all received
    /// packets.
    fn assert_sound(&self, fewest: u64) {
        let findings = &self.findings;
        assert_eq!(self.outcome.undecodable, []);
        assert!(findings.packets >= fewest, "{findings:?}");
        assert_eq!(findings.good_checksums, findings.packets, "{findings:?}");
        assert!(findings.malformed.is_empty(), "{findings:?}");
    }

    /// Checks in the log and the capture that netrig's data moved from path 0 to path 1 when path 0 changed to `state`:
    /// path 1 carried no data before, and path 0 none after. Returns the time of the change, and the time-outs since
    /// the failure.
    fn assert_moved(&self, state: PathState) -> (Instant, Vec<Duration>) {
        let (outcome, log) = (&self.outcome, self.outcome.log());
        let down = outcome.step_at.expect("the path failed");
        let failed = Incident::PathChanged { path: PathId(0), state };
        let failed = outcome.first(|incident| *incident == failed).expect("the failure was noticed");
        let after = outcome.incidents.iter().filter(|(at, _)| *at > down);
        let moves = after.filter_map(|(at, incident)| match incident {
            Incident::DataPathChanged { path } => Some((*at, *path)),
            _ => None,
        });
        assert_eq!(moves.collect::<Vec<_>>(), [(failed, PathId(1))], "{log}");
        let after = outcome.incidents.iter().filter(|(at, _)| *at > down);
        let timeouts = after.filter_map(|(_, incident)| match incident {
            Incident::Timeout { path: PathId(0), rto, .. } => Some(*rto),
            _ => None,
        });
        let [first, second] = [0, 1].map(|path| &outcome.paths[path]);
        assert!(first.data_sent.last().is_some_and(|last| *last <= failed), "{log}");
        assert!(second.data_sent.first().is_some_and(|first| *first >= failed), "{log}");
        // Half of the bytes, without those that were outstanding, took the second path.
        let over_second = self.findings.data_to(second.addresses.remote);
        assert!(over_second > FEWEST / 3, "{:?}", self.findings);
        (failed, timeouts.collect())
    }

    /// Prints the events of the transfer (visible with `--nocapture`).
    fn tell(&self, name: &str) {
        let Self { outcome, peer, findings, .. } = self;
        let counters = &outcome.counters;
        let time = outcome.transfer_time().unwrap_or_default().as_secs_f64();
        let bytes = outcome.progress.last().map_or(0, |(_, bytes)| *bytes);
        let mut text =
            format!("{name}: {bytes} B in {time:.2} s, goodput {:.2} Mbit/s\n", bytes as f64 * 8e-6 / time);
        text += &format!(
            "            {} time-outs, chunks sent again after them {} and fast {}; {} B came twice; late by at most {}\n",
            counters.timeouts,
            counters.timeout_retransmissions,
            counters.fast_retransmissions,
            counters.bytes_duplicated,
            outcome.lateness,
        );
        text += &format!("            {} packets captured, DATA {:?}\n", findings.packets, findings.data);
        if let Some((until, silence)) = outcome.step_at.and_then(|down| outcome.longest_stall(down)) {
            text += &format!(
                "            longest silence {:.3} s, until {:.3} s\n",
                silence.as_secs_f64(),
                until.as_secs_f64()
            );
        }
        text += &outcome.log();
        for said in peer.said().iter().filter(|said| !said.line.starts_with("received")) {
            let at = said.at.duration_since(outcome.epoch).as_secs_f64();
            text += &format!("{at:8.3} s  peer: {}\n", said.line);
        }
        println!("{text}");
    }
}

/// The constants of a profile, with the peer's number of streams.
fn config(profile: Profile) -> Config {
    Config { streams: STREAMS, ..Config::of(profile) }
}

/// The data of each stream.
fn content() -> Vec<Arc<[u8]>> {
    let bytes = |stream: u16| {
        let mut random = Seeds::new(1).stream(&format!("content/{stream}"));
        let words = SIZE / u64::from(STREAMS) / 8;
        (0..words).flat_map(|_| random.bits().to_le_bytes()).collect()
    };
    (0..STREAMS).map(bytes).collect()
}

/// The settings of a line whose rate is not the limit.
fn line(loss: f64) -> LineSettings {
    let queue = Queue::Fifo(Fifo { packets: Some(1000), ..Fifo::default() });
    let probability = Fraction::new(loss).expect("a share");
    let loss = (loss > 0.0).then_some(Loss::Bernoulli(Bernoulli { probability }));
    LineSettings {
        loss,
        ..LineSettings::new(Rate::from_bits_per_s(100_000_000), Duration::from_millis(1), queue)
    }
}

/// The data of each stream that the peer has received.
fn read(folder: &Path) -> Vec<Vec<u8>> {
    let stream = |stream: u16| fs::read(folder.join(stream.to_string())).expect("the peer wrote a file");
    (0..STREAMS).map(stream).collect()
}

#[test]
fn netrig_sends_10_mb_at_5_percent_loss() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer { loss: 0.05, ..Transfer::new(Side::Netrig) };
    let report = transfer.run(&tools, "netrig sends at 5 % loss");
    transfer.assert_complete(&report);
    assert_lossy(&report.outcome);
}

#[test]
fn usrsctp_sends_10_mb_at_5_percent_loss() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer { loss: 0.05, ..Transfer::new(Side::Peer) };
    let report = transfer.run(&tools, "usrsctp sends at 5 % loss");
    transfer.assert_complete(&report);
    assert_lossy(&report.outcome);
}

/// Checks that the lines lost 5 % of the packets in both directions, within five standard deviations.
fn assert_lossy(outcome: &Outcome) {
    for line in [&outcome.paths[0].outward, &outcome.paths[0].inward] {
        let packets = line.offered.packets as f64;
        let lost = line.dropped(DropReason::Loss).packets as f64;
        assert!((lost - 0.05 * packets).abs() < 5.0 * (packets * 0.05 * 0.95).sqrt(), "{lost} of {packets}");
    }
}

/// The receiver initiates the association, as a client does, and shuts it down after it has received all data. netrig
/// uses the constants of Linux.
#[test]
fn netrig_serves_on_five_streams() {
    let Some(tools) = Tools::find() else { return };
    let config = config(Profile::Linux);
    let transfer = Transfer { opener: Side::Peer, closer: Side::Peer, config, ..Transfer::new(Side::Netrig) };
    let report = transfer.run(&tools, "netrig serves");
    transfer.assert_complete(&report);
}

#[test]
fn usrsctp_serves_on_five_streams() {
    let Some(tools) = Tools::find() else { return };
    let config = config(Profile::Linux);
    let transfer =
        Transfer { opener: Side::Netrig, closer: Side::Netrig, config, ..Transfer::new(Side::Peer) };
    let report = transfer.run(&tools, "usrsctp serves");
    transfer.assert_complete(&report);
}

/// RFC 9260 section 8.2 with retransmissions on the same path and without RFC 7829: the path becomes inactive when the
/// number of time-outs exceeds Path.Max.Retrans, here after RTO + 2 RTO + 4 RTO.
#[test]
fn netrig_fails_over_from_an_inactive_path() {
    let Some(tools) = Tools::find() else { return };
    let mut transfer = Transfer::failing(Side::Netrig);
    transfer.config.potentially_failed = false;
    transfer.config.path_max_retrans = 2;
    transfer.config.retransmit_to = RetransmitTo::SamePath;
    let report = transfer.run(&tools, "netrig fails over from an inactive path");
    transfer.assert_complete(&report);
    let (moved, timeouts) = report.assert_moved(PathState::Inactive);
    assert_eq!(timeouts, [1, 2, 4].map(Duration::from_secs));
    // The timer was last started before the failure, or by a SACK that was in transit then.
    let down = report.outcome.step_at.expect("the path failed");
    assert!(moved - down > Duration::from_secs(6), "{}", report.outcome.log());
}

/// RFC 7829 section 3.2: no new data are sent over a potentially failed path, from the first time-out on.
#[test]
fn netrig_fails_over_from_a_potentially_failed_path() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer::failing(Side::Netrig);
    let report = transfer.run(&tools, "netrig fails over from a potentially failed path");
    transfer.assert_complete(&report);
    let (_, timeouts) = report.assert_moved(PathState::PotentiallyFailed);
    assert_eq!(timeouts, [Duration::from_secs(1)]);
}

#[test]
fn usrsctp_fails_over() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer { peer_path_max_retrans: Some(2), ..Transfer::failing(Side::Peer) };
    let report = transfer.run(&tools, "usrsctp fails over");
    transfer.assert_complete(&report);
    let Report { outcome, peer, findings, .. } = report;
    let [first, second] = [0, 1].map(|path| outcome.paths[path].addresses.local);
    assert!(peer.when(&format!("path {first} unreachable")).is_some(), "{:?}", peer.said());
    let down = outcome.step_at.expect("the path failed");
    assert!(outcome.paths[1].data_received[0] > down, "{}", outcome.log());
    assert!(findings.data_to(second) > FEWEST / 3, "{findings:?}");
}

#[test]
fn netrig_aborts() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer { middle: Some((SIZE / 10, Middle::Abort)), ..Transfer::new(Side::Peer) };
    let report = transfer.run(&tools, "netrig aborts");
    assert_eq!(report.outcome.closed, Some(CloseReason::Aborted));
    assert!(report.peer.when("over lost").is_some(), "{:?}", report.peer.said());
    report.assert_sound(SIZE / 10 / 1452);
}

#[test]
fn usrsctp_aborts() {
    let Some(tools) = Tools::find() else { return };
    let transfer = Transfer { middle: Some((SIZE / 10, Middle::Abort)), ..Transfer::new(Side::Netrig) };
    let report = transfer.run(&tools, "usrsctp aborts");
    assert_eq!(report.outcome.closed, Some(CloseReason::Aborted));
    assert!(report.findings.chunk_types.contains(&ABORT), "{:?}", report.findings);
    report.assert_sound(SIZE / 10 / 1452);
}
