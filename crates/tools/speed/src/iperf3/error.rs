//! Why a session did not come to its end.

use std::fmt;

use super::code::Iperf3Refusal;
use super::parameters::ParameterError;
use super::results::ResultsError;

/// How far a test had got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPhase {
    /// It was to be agreed what is measured.
    Parameters,
    /// It was agreed, and not yet its turn.
    Waiting,
    /// Streams were to be opened.
    Opening,
    /// Data flowed.
    Running,
    /// What was found was to be told.
    Results,
}

impl fmt::Display for SessionPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parameters => "before the test was agreed on",
            Self::Waiting => "before it was the test's turn",
            Self::Opening => "while its streams were opened",
            Self::Running => "while data flowed",
            Self::Results => "while results were exchanged",
        })
    }
}

/// Why a session did not come to its end, seen from this end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection was closed.
    #[error("the other end closed the connection {0}")]
    Closed(SessionPhase),
    /// The other end said that it gives up.
    #[error("the other end gave up {0}")]
    Terminated(SessionPhase),
    /// This end gave up.
    #[error("this end gave up {0}")]
    Stopped(SessionPhase),
    /// The other end is silent.
    #[error("the other end said nothing for too long {0}")]
    Silent(SessionPhase),
    /// The test did not end.
    #[error("the test did not end when it was to")]
    Expired,
    /// A byte that is no state, or none that may come now.
    #[error("the other end said {byte} {phase}, which nothing is to be made of: is it iperf3?")]
    Unexpected {
        /// What it said.
        byte: u8,
        /// When.
        phase: SessionPhase,
    },
    /// JSON that is longer than is read, or has no bytes.
    #[error("the other end sends JSON of {length} bytes, where 1 to {longest} are read")]
    Length {
        /// That it announced.
        length: u32,
        /// That is read.
        longest: u32,
    },
    /// The parameters are wrong.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The results are wrong.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The server is busy with other tests.
    #[error("the server is busy")]
    Busy,
    /// The server, which may be this end, refused the test.
    #[error("the server refused the test: {0}")]
    Refused(Iperf3Refusal),
}
