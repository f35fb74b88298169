//! The state byte of the control connection.

/// A state byte on the control connection: the next state of the test, or the reason why it ends.
///
/// Numbers 3, 5 to 8 and 15 are unused on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum TestState {
    /// All streams are open, and timers start. Server to client.
    TestStart = 1,
    /// Data flows. Server to client.
    TestRunning = 2,
    /// The client ends the test. Client to server.
    TestEnd = 4,
    /// Requests the parameters of the test. Server to client.
    ParamExchange = 9,
    /// Requests that the client opens the streams. Server to client.
    CreateStreams = 10,
    /// The server aborts the test. Server to client.
    ServerTerminate = 11,
    /// The client aborts the test. Client to server.
    ClientTerminate = 12,
    /// Requests the results of the client; the results of the server follow. Server to client.
    ExchangeResults = 13,
    /// Confirms the exchange of results. Server to client.
    DisplayResults = 14,
    /// The last message of a test. Client to server.
    IperfDone = 16,
    /// The server is busy. Server to client.
    AccessDenied = -1,
    /// Two numbers of four bytes follow: the error and the server's `errno`. Server to client.
    ServerError = -2,
}

impl TestState {
    const ALL: [Self; 12] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// The state byte.
    pub const fn byte(self) -> u8 {
        self as i8 as u8
    }

    /// Decodes a byte. `None` if the byte is not a state.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.byte() == byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_its_byte() {
        for state in TestState::ALL {
            assert_eq!(TestState::from_byte(state.byte()), Some(state));
        }
        assert_eq!((TestState::AccessDenied.byte(), TestState::ServerError.byte()), (0xff, 0xfe));
        assert_eq!(
            (0..=u8::MAX).filter(|byte| TestState::from_byte(*byte).is_some()).count(),
            TestState::ALL.len()
        );
    }
}
