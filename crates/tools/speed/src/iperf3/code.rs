//! Error numbers of iperf3, which a server sends and a client prints as text.

use std::fmt;

/// An error number of iperf3. The peer has a text for each number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iperf3Code(pub i32);

impl Iperf3Code {
    /// The test would last longer than a server allows. Sent to versions that do not have [`Iperf3Code::TOO_LONG`].
    pub const DURATION: Self = Self(5);
    /// Too many streams, or none.
    pub const STREAMS: Self = Self(6);
    /// A block is empty or too long.
    pub const BLOCK_SIZE: Self = Self(7);
    /// The buffer of a socket is too large.
    pub const BUFFER_SIZE: Self = Self(8);
    /// The segment size is too large.
    pub const MSS: Self = Self(10);
    /// The warm-up is too long.
    pub const OMIT: Self = Self(12);
    /// A burst is too long.
    pub const BURST: Self = Self(15);
    /// SCTP is not supported.
    pub const NO_SCTP: Self = Self(18);
    /// A datagram is too short or too long.
    pub const UDP_BLOCK_SIZE: Self = Self(20);
    /// The type of service does not fit into a byte.
    pub const TOS: Self = Self(21);
    /// Both `-R` and `--bidir` are set.
    pub const REVERSE_AND_BIDIRECTIONAL: Self = Self(25);
    /// The requested rate exceeds the server's total rate.
    pub const TOTAL_RATE: Self = Self(27);
    /// The test would last longer than a server allows, since 3.20.
    pub const TOO_LONG: Self = Self(37);
    /// The peer sent an unknown or unexpected state byte.
    pub const UNKNOWN_MESSAGE: Self = Self(110);
    /// The parameters are missing or malformed.
    pub const PARAMETERS: Self = Self(114);
    /// The results are missing or malformed.
    pub const RESULTS: Self = Self(117);
    /// `TCP_NODELAY` cannot be set.
    pub const SET_NO_DELAY: Self = Self(122);
    /// The type of service cannot be set.
    pub const SET_TOS: Self = Self(125);
    /// The flow label cannot be set.
    pub const FLOW_LABEL: Self = Self(127);
    /// The CPU affinity cannot be set.
    pub const AFFINITY: Self = Self(132);
    /// The congestion control is not available.
    pub const CONGESTION: Self = Self(134);
    /// A socket's buffer cannot be set.
    pub const SET_BUFFER: Self = Self(141);
    /// The client is not authorized.
    pub const AUTHORIZATION: Self = Self(142);
    /// The test has exceeded the requested duration.
    pub const EXPIRED: Self = Self(160);
    /// A stream could not be accepted.
    pub const ACCEPT: Self = Self(204);
    /// The results have an unknown stream.
    pub const STREAM_ID: Self = Self(208);

    /// The text of an error that a server may send to a client.
    pub const fn words(self) -> Option<&'static str> {
        Some(match self.0 {
            5 | 37 => "the test would last longer than it allows",
            6 => "the number of streams is out of range",
            7 => "the block size is too large",
            8 => "the socket buffer is too large",
            10 => "the segment size is too large",
            12 => "the warm-up is too long",
            15 => "the burst is too long",
            18 => "it does not support SCTP",
            20 => "the datagrams are too short or too long",
            21 => "the type of service is out of range",
            25 => "a test is either reverse or bidirectional",
            27 => "the rate is above its limit",
            110 => "it received an unknown control message",
            114 => "it could not read the parameters",
            117 => "it could not read the results",
            122 => "it cannot set TCP_NODELAY",
            123 => "it cannot set the segment size",
            124 | 141 => "it cannot set the socket buffer",
            125 | 126 => "it cannot set the type of service",
            127 => "it cannot set the flow label",
            132 => "it cannot set the CPU affinity",
            134 => "it does not have that congestion control",
            140 => "it cannot pace its sockets",
            142 => "it requires a user's name and password, or those given are wrong",
            144 => "no data arrived there for too long",
            160 => "the test exceeded its duration",
            200..=207 => "it could not open or read a stream",
            208 => "it received results of an unknown stream",
            _ => return None,
        })
    }
}

impl fmt::Display for Iperf3Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words() {
            Some(words) => f.write_str(words),
            None => write!(f, "error {} of iperf3", self.0),
        }
    }
}

/// The error of a server: both numbers that follow [`TestState::ServerError`](super::TestState::ServerError).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iperf3Refusal {
    /// The error number of iperf3.
    pub code: Iperf3Code,
    /// The `errno` of the kernel. 0 if there is none.
    pub errno: i32,
}

impl Iperf3Refusal {
    /// Encodes both numbers.
    pub fn bytes(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.code.0.to_be_bytes());
        bytes[4..].copy_from_slice(&self.errno.to_be_bytes());
        bytes
    }

    /// Decodes both numbers.
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        Self { code: Iperf3Code(i32::from_be_bytes([a, b, c, d])), errno: i32::from_be_bytes([e, f, g, h]) }
    }
}

impl From<Iperf3Code> for Iperf3Refusal {
    fn from(code: Iperf3Code) -> Self {
        Self { code, errno: 0 }
    }
}

impl fmt::Display for Iperf3Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if self.errno > 0 {
            write!(f, " ({})", std::io::Error::from_raw_os_error(self.errno))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_its_numbers() {
        let refusal = Iperf3Refusal { code: Iperf3Code::AFFINITY, errno: 1 };
        assert_eq!(refusal.bytes(), [0, 0, 0, 132, 0, 0, 0, 1]);
        assert_eq!(Iperf3Refusal::from_bytes(refusal.bytes()), refusal);
        assert!(refusal.to_string().starts_with("it cannot set the CPU affinity ("));
        assert_eq!(Iperf3Refusal::from(Iperf3Code(999)).to_string(), "error 999 of iperf3");
    }
}
