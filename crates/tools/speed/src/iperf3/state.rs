//! The state byte.

/// What a byte on the connection for control says: what comes next, or why nothing does.
///
/// Numbers 3, 5 to 8 and 15 are unused on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum TestState {
    /// All streams stand: timers start. Server to client.
    TestStart = 1,
    /// Data flows. Server to client.
    TestRunning = 2,
    /// The client has had enough. Client to server.
    TestEnd = 4,
    /// The client is to tell its parameters. Server to client.
    ParamExchange = 9,
    /// The client is to open its streams. Server to client.
    CreateStreams = 10,
    /// The server gives up. Server to client.
    ServerTerminate = 11,
    /// The client gives up. Client to server.
    ClientTerminate = 12,
    /// The client is to tell its results, then the server tells its own. Server to client.
    ExchangeResults = 13,
    /// Nothing is missing. Server to client.
    DisplayResults = 14,
    /// The last word. Client to server.
    IperfDone = 16,
    /// The server is busy. Server to client.
    AccessDenied = -1,
    /// Two numbers of four bytes follow: which error, and the server's `errno`. Server to client.
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

    /// The byte.
    pub const fn byte(self) -> u8 {
        self as i8 as u8
    }

    /// What a byte says; nothing of those that are no state.
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
