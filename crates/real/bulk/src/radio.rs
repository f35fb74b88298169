//! The radio by which packets leave, while data is carried.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use netrig_host::netlink::{Interface, Links, RadioLink, Radios};

/// The radio that leads to a peer, and what it had counted when it was first looked at.
#[derive(Debug)]
pub struct Radio {
    interface: Interface,
    radios: Radios,
    first: RadioLink,
}

/// What a radio did between two readings.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RadioReport {
    /// Its interface.
    pub interface: String,
    /// How strong the other station was heard last, dBm.
    pub signal_dbm: Option<i8>,
    /// What frames were sent at last, bit/s; gaps, headers and acknowledgements take their part of it.
    pub sends_at: Option<u64>,
    /// What they were received at last, bit/s.
    pub receives_at: Option<u64>,
    /// Frames sent, each once.
    pub sent: u32,
    /// Frames sent again.
    pub sent_again: u32,
    /// Frames that were given up.
    pub failed: u32,
}

impl Radio {
    /// The one by which packets to `peer` leave; nothing if no radio does.
    pub fn towards(peer: IpAddr) -> Option<Self> {
        let interface = Links::open().ok()?.towards(peer).ok()?;
        let mut radios = Radios::open().ok()?;
        let first = radios.link(interface.index).ok()??;
        Some(Self { interface, radios, first })
    }

    /// What it did since; nothing if it is gone.
    pub fn report(mut self) -> Option<RadioReport> {
        let last = self.radios.link(self.interface.index).ok()??;
        Some(RadioReport {
            interface: self.interface.name,
            signal_dbm: last.signal_dbm,
            sends_at: last.sends_at,
            receives_at: last.receives_at,
            sent: last.sent.wrapping_sub(self.first.sent),
            sent_again: last.sent_again.wrapping_sub(self.first.sent_again),
            failed: last.failed.wrapping_sub(self.first.failed),
        })
    }
}
