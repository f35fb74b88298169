//! Errors of a session of iperf3's protocol.

use netrig_core::named;

use super::code::Iperf3Refusal;
use super::parameters::ParameterError;
use super::results::ResultsError;

named! {
    /// The phase of a test in which an error occurred.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SessionPhase {
        /// Before the parameters were agreed.
        Parameters = "before the test was agreed on",
        /// After the parameters were agreed, and before the server started the test.
        Waiting = "before it was the test's turn",
        /// While streams were opened.
        Opening = "while its streams were opened",
        /// While data flowed.
        Running = "while data flowed",
        /// While results were exchanged.
        Results = "while results were exchanged",
    }
}

/// Why a session failed, as seen from this end.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The connection was closed.
    #[error("the other end closed the connection {0}")]
    Closed(SessionPhase),
    /// The peer aborted the test.
    #[error("the other end aborted the test {0}")]
    Terminated(SessionPhase),
    /// This end aborted the test.
    #[error("this end aborted the test {0}")]
    Stopped(SessionPhase),
    /// The peer sent nothing for too long.
    #[error("the other end sent nothing for too long {0}")]
    Silent(SessionPhase),
    /// The test did not end in time.
    #[error("the test did not end in time")]
    Expired,
    /// The peer sent an unknown or unexpected state byte.
    #[error("the other end sent the unexpected byte {byte} {phase}: is it iperf3?")]
    Unexpected {
        /// The byte.
        byte: u8,
        /// The phase.
        phase: SessionPhase,
    },
    /// The peer sent JSON that is empty or too long.
    #[error("the other end sends JSON of {length} bytes: expected 1 to {longest}")]
    Length {
        /// The announced length, bytes.
        length: u32,
        /// The longest accepted length, bytes.
        longest: u32,
    },
    /// The parameters are invalid.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The results are invalid.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The server is busy with other tests.
    #[error("the server is busy")]
    Busy,
    /// The server refused the test. The server may be this end.
    #[error("the server refused the test: {0}")]
    Refused(Iperf3Refusal),
}
