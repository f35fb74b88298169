//! The server's side of a session. It determines the action for each message of a client.

use netrig_core::{Duration, Rate};

use super::words::{Carrier, DatagramLoad, FromClient, LONGEST_INTERVAL, MeasurementPhase, PhaseError};

/// The action of a server in response to a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Request admission, with the rate that the client will not exceed.
    Admit(Option<Rate>),
    /// Accept the connections of a phase.
    Prepare(MeasurementPhase),
    /// Start the data flow.
    Begin,
    /// Set the rate of the server's datagrams.
    Pace(Rate),
    /// Stop and report.
    End {
        /// Datagrams that the client has sent, in a phase of datagrams.
        sent: Option<u64>,
    },
}

/// A violation of the protocol by the client, which ends the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message is not allowed at this stage.
    #[error("`{said}` is not allowed {when}")]
    OutOfOrder {
        /// The message.
        said: &'static str,
        /// The stage, as part of a sentence.
        when: &'static str,
    },
    /// A phase is invalid.
    #[error(transparent)]
    Phase(#[from] PhaseError),
    /// The number of a phase is not above the previous one.
    #[error("phase {0} is not above the previous number")]
    Number(u32),
    /// A rate is above the rate that was stated at admission.
    #[error("it requests {asked} bit/s, and was admitted with {admitted} bit/s")]
    Exceeds {
        /// The requested rate, bits per second.
        asked: u64,
        /// The admitted rate, bits per second.
        admitted: u64,
    },
    /// The interval between readings is too long for the server to enforce its limits in time.
    #[error("a reading every {0}: expected at least one per second while data flows")]
    Rare(Duration),
    /// The session has too many phases.
    #[error("more than {MOST_PHASES} phases")]
    Phases,
}

/// Maximum number of phases of a session.
const MOST_PHASES: u32 = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionStage {
    /// The greeting has ended, and the client has not requested admission yet.
    Greeted,
    /// The session waits in the queue.
    Waiting,
    /// The session is admitted, and no phase is prepared or running.
    Idle,
    /// A phase is prepared.
    Prepared,
    /// The data flow of the phase has started.
    Running,
}

/// A session at its server, from the greeting to the end.
#[derive(Clone, Debug)]
pub struct SpeedSession {
    state: SessionStage,
    /// The maximum rate that the client stated at admission.
    promised: Option<Rate>,
    last: Option<u32>,
    phases: u32,
    /// Whether the client controls the rate of the datagrams in this phase.
    told: bool,
}

impl Default for SpeedSession {
    fn default() -> Self {
        Self::new()
    }
}

impl SpeedSession {
    /// A session whose greeting has ended.
    pub const fn new() -> Self {
        Self { state: SessionStage::Greeted, promised: None, last: None, phases: 0, told: false }
    }

    /// Records that the session was admitted.
    pub fn admitted(&mut self) {
        if self.state == SessionStage::Waiting {
            self.state = SessionStage::Idle;
        }
    }

    /// Records that the server has ended the phase, because its time had passed or its connections were closed.
    pub fn ended(&mut self) {
        if matches!(self.state, SessionStage::Prepared | SessionStage::Running) {
            self.state = SessionStage::Idle;
        }
    }

    /// Handles a message. Returns `None` if the message is ignored because it arrived after the server had ended the
    /// phase.
    ///
    /// # Errors
    /// A violation of the protocol, after which the session must end.
    pub fn receive(&mut self, message: FromClient) -> Result<Option<SessionAction>, Violation> {
        match (self.state, message) {
            (SessionStage::Greeted, FromClient::Ask { bits_per_s }) => {
                self.state = SessionStage::Waiting;
                self.promised = bits_per_s.map(Rate::from_bits_per_s);
                Ok(Some(SessionAction::Admit(self.promised)))
            }
            (SessionStage::Idle, FromClient::Prepare(phase)) => {
                self.prepare(&phase)?;
                Ok(Some(SessionAction::Prepare(phase)))
            }
            (SessionStage::Prepared, FromClient::Begin) => {
                self.state = SessionStage::Running;
                Ok(Some(SessionAction::Begin))
            }
            (SessionStage::Running, FromClient::Rate { bits_per_s }) if self.told => {
                self.keeps_to(Rate::from_bits_per_s(bits_per_s))?;
                Ok(Some(SessionAction::Pace(Rate::from_bits_per_s(bits_per_s))))
            }
            (SessionStage::Prepared | SessionStage::Running, FromClient::End { sent }) => {
                self.state = SessionStage::Idle;
                Ok(Some(SessionAction::End { sent }))
            }
            // Both ends may end a phase at the same time, so these messages are ignored.
            (SessionStage::Idle, FromClient::End { .. } | FromClient::Rate { .. } | FromClient::Begin)
                if self.last.is_some() =>
            {
                Ok(None)
            }
            (state, message) => Err(Violation::OutOfOrder { said: message.name(), when: state.when() }),
        }
    }

    fn prepare(&mut self, phase: &MeasurementPhase) -> Result<(), Violation> {
        phase.check()?;
        if phase.way().is_some() && phase.every() > LONGEST_INTERVAL {
            return Err(Violation::Rare(phase.every()));
        }
        if self.last.is_some_and(|last| phase.number <= last) {
            return Err(Violation::Number(phase.number));
        }
        self.phases += 1;
        if self.phases > MOST_PHASES {
            return Err(Violation::Phases);
        }
        self.told = false;
        if let Carrier::Udp { load, .. } = &phase.carrier {
            load.rate().map_or(Ok(()), |rate| self.keeps_to(rate))?;
            self.told = *load == DatagramLoad::Told;
        }
        self.last = Some(phase.number);
        self.state = SessionStage::Prepared;
        Ok(())
    }

    /// Checks a requested rate against the admitted rate.
    fn keeps_to(&self, asked: Rate) -> Result<(), Violation> {
        match self.promised {
            Some(admitted) if asked > admitted => {
                Err(Violation::Exceeds { asked: asked.bits_per_s(), admitted: admitted.bits_per_s() })
            }
            _ => Ok(()),
        }
    }
}

impl SessionStage {
    const fn when(self) -> &'static str {
        match self {
            Self::Greeted => "before the request for admission",
            Self::Waiting => "while it waits for its turn",
            Self::Idle => "between two phases",
            Self::Prepared => "before the phase has begun",
            Self::Running => "while data flows",
        }
    }
}

impl FromClient {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ask { .. } => "ask",
            Self::Prepare(_) => "prepare",
            Self::Begin => "begin",
            Self::Rate { .. } => "rate",
            Self::End { .. } => "end",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::words::DataDirection;
    use super::*;

    fn phase(number: u32, carrier: Carrier) -> FromClient {
        FromClient::Prepare(MeasurementPhase {
            number,
            carrier,
            lasts_ns: 10_000_000_000,
            every_ns: 100_000_000,
        })
    }

    fn tcp(number: u32) -> FromClient {
        phase(number, Carrier::Tcp { way: DataDirection::Down, streams: 4, congestion: None })
    }

    const fn udp(load: DatagramLoad) -> Carrier {
        Carrier::Udp { way: DataDirection::Down, size: 1200, load }
    }

    fn admitted(bits_per_s: Option<u64>) -> SpeedSession {
        let mut session = SpeedSession::new();
        session.receive(FromClient::Ask { bits_per_s }).unwrap();
        session.admitted();
        session
    }

    #[test]
    fn a_session_goes_through_its_phases() {
        let mut session = SpeedSession::new();
        assert_eq!(
            session.receive(FromClient::Ask { bits_per_s: None }),
            Ok(Some(SessionAction::Admit(None)))
        );
        let early = session.receive(tcp(1)).unwrap_err();
        assert_eq!(early.to_string(), "`prepare` is not allowed while it waits for its turn");
        session.admitted();
        for number in [1, 2] {
            assert!(matches!(session.receive(tcp(number)), Ok(Some(SessionAction::Prepare(_)))));
            assert_eq!(session.receive(FromClient::Begin), Ok(Some(SessionAction::Begin)));
            assert_eq!(
                session.receive(FromClient::End { sent: None }),
                Ok(Some(SessionAction::End { sent: None }))
            );
        }
        assert_eq!(session.receive(tcp(2)), Err(Violation::Number(2)));
        let FromClient::Prepare(three) = tcp(3) else { panic!() };
        let rare =
            session.receive(FromClient::Prepare(MeasurementPhase { every_ns: 1_000_000_001, ..three }));
        assert!(matches!(rare, Err(Violation::Rare(_))));
    }

    #[test]
    fn what_crosses_the_servers_own_end_is_forgiven() {
        let mut session = admitted(None);
        session.receive(phase(1, udp(DatagramLoad::Told))).unwrap();
        session.receive(FromClient::Begin).unwrap();
        session.ended();
        assert_eq!(session.receive(FromClient::Rate { bits_per_s: 9 }), Ok(None));
        assert_eq!(session.receive(FromClient::End { sent: None }), Ok(None));
        assert!(matches!(session.receive(tcp(2)), Ok(Some(SessionAction::Prepare(_)))));
    }

    #[test]
    fn only_a_phase_whose_rate_is_told_is_told_one() {
        let mut session = admitted(Some(1000));
        session.receive(phase(1, udp(DatagramLoad::Told))).unwrap();
        session.receive(FromClient::Begin).unwrap();
        let rate = |bits_per_s| FromClient::Rate { bits_per_s };
        assert_eq!(session.receive(rate(1000)), Ok(Some(SessionAction::Pace(Rate::from_bits_per_s(1000)))));
        assert_eq!(
            session.clone().receive(rate(1001)),
            Err(Violation::Exceeds { asked: 1001, admitted: 1000 })
        );
        session.receive(FromClient::End { sent: None }).unwrap();
        session.receive(phase(2, udp(DatagramLoad::Fixed { bits_per_s: 500 }))).unwrap();
        session.receive(FromClient::Begin).unwrap();
        assert!(matches!(session.receive(rate(10)), Err(Violation::OutOfOrder { said: "rate", .. })));
        let mut session = admitted(Some(1000));
        let more = phase(1, udp(DatagramLoad::Fixed { bits_per_s: 2000 }));
        assert_eq!(session.receive(more), Err(Violation::Exceeds { asked: 2000, admitted: 1000 }));
    }

    fn message() -> impl Strategy<Value = FromClient> {
        prop_oneof![
            Just(FromClient::Ask { bits_per_s: None }),
            (0..4u32).prop_map(tcp),
            (0..4u32).prop_map(|number| phase(number, udp(DatagramLoad::Told))),
            Just(FromClient::Begin),
            Just(FromClient::Rate { bits_per_s: 1 }),
            Just(FromClient::End { sent: None }),
        ]
    }

    proptest! {
        /// For any sequence of messages, the data flow starts only in a prepared phase of an admitted session.
        #[test]
        fn no_order_of_words_begins_what_was_not_prepared(words in proptest::collection::vec(message(), 0..30)) {
            let mut session = SpeedSession::new();
            let (mut asked, mut prepared) = (false, false);
            for message in words {
                match session.receive(message) {
                    Ok(Some(SessionAction::Admit(_))) => { asked = true; session.admitted(); }
                    Ok(Some(SessionAction::Prepare(_))) => { prop_assert!(asked); prepared = true; }
                    Ok(Some(SessionAction::Begin)) => prop_assert!(std::mem::replace(&mut prepared, false)),
                    Ok(Some(SessionAction::End { .. })) => prepared = false,
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }
}
