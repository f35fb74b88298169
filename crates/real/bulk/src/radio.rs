//! Statistics of the wireless link of a transfer.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use netrig_host::netlink::{Interface, Links, RadioLink, Radios};

/// The wireless interface towards a peer, and its counters at the start.
#[derive(Debug)]
pub struct Radio {
    interface: Interface,
    radios: Radios,
    first: RadioLink,
}

/// Changes of a radio's counters between two readings.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioReport {
    /// Name of the interface.
    pub interface: String,
    /// Signal strength of the last frame from the other station, dBm.
    pub signal_dbm: Option<i8>,
    /// Bit rate of the last sent frame, bit/s. The throughput is lower because of gaps, headers and acknowledgements.
    #[serde(rename = "sends_at")]
    pub transmit_bit_rate: Option<u64>,
    /// Bit rate of the last received frame, bit/s.
    #[serde(rename = "receives_at")]
    pub receive_bit_rate: Option<u64>,
    /// Frames sent, without retransmissions.
    pub sent: u32,
    /// Retransmissions of frames.
    pub sent_again: u32,
    /// Frames that were not acknowledged after all retransmissions.
    pub failed: u32,
}

impl Radio {
    /// The wireless interface of the route to `peer`; `None` if the interface of the route is not wireless.
    pub fn towards(peer: IpAddr) -> Option<Self> {
        let interface = Links::open().ok()?.towards(peer).ok()?;
        let mut radios = Radios::open().ok()?;
        let first = radios.link(interface.index).ok()??;
        Some(Self { interface, radios, first })
    }

    /// The counts since [`Radio::towards`]; `None` if the interface is gone.
    pub fn report(mut self) -> Option<RadioReport> {
        let last = self.radios.link(self.interface.index).ok()??;
        Some(RadioReport {
            interface: self.interface.name,
            signal_dbm: last.signal_dbm,
            transmit_bit_rate: last.transmit_bit_rate,
            receive_bit_rate: last.receive_bit_rate,
            sent: last.sent.wrapping_sub(self.first.sent),
            sent_again: last.sent_again.wrapping_sub(self.first.sent_again),
            failed: last.failed.wrapping_sub(self.first.failed),
        })
    }
}
