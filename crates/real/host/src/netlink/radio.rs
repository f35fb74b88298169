//! Statistics of wireless links (nl80211, include/uapi/linux/nl80211.h).

use netlink_packet_core::DefaultNla;

use super::generic::{GenericFamily, content, number, word};
use super::{NetlinkError, attributes};

const CMD_GET_STATION: u8 = 17;
const ATTR_IFINDEX: u16 = 3;
const ATTR_STA_INFO: u16 = 21;

const STA_SIGNAL: u16 = 7;
const STA_TX_BITRATE: u16 = 8;
const STA_TX_PACKETS: u16 = 10;
const STA_TX_RETRIES: u16 = 11;
const STA_TX_FAILED: u16 = 12;
const STA_RX_BITRATE: u16 = 14;
const RATE_BITRATE: u16 = 1;
const RATE_BITRATE32: u16 = 5;

/// The unit of a radio's rates, bit/s.
const RATE_UNIT: u64 = 100_000;

/// Reads the wireless interfaces of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Radios(GenericFamily);

/// The wireless link between an interface and its only peer station. Values that the driver does not report are absent
/// or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioLink {
    /// Signal strength of the last frame from the other station, dBm.
    pub signal_dbm: Option<i8>,
    /// Modulation rate of the frames that this station sends, bit/s. It includes gaps, headers and acknowledgements, so
    /// the throughput is lower.
    pub transmit_bit_rate: Option<u64>,
    /// Modulation rate of the frames that this station receives, bit/s.
    pub receive_bit_rate: Option<u64>,
    /// Frames sent, without retransmissions.
    pub sent: u32,
    /// Retransmissions of frames.
    pub sent_again: u32,
    /// Frames that were not acknowledged after all retransmissions.
    pub failed: u32,
}

impl Radios {
    /// Opens a netlink socket in the namespace of the calling thread.
    ///
    /// # Errors
    /// The error of the kernel. If no wireless driver is loaded, the family `nl80211` does not exist.
    pub fn open() -> Result<Self, NetlinkError> {
        GenericFamily::open("nl80211").map(Self)
    }

    /// The link of the interface with this index; `None` if the interface has no peer station or more than one.
    ///
    /// # Errors
    /// The error of the kernel, for example if the interface is not wireless.
    pub fn link(&mut self, interface: u32) -> Result<Option<RadioLink>, NetlinkError> {
        let answers = self.0.list(CMD_GET_STATION, vec![word(ATTR_IFINDEX, interface)])?;
        let mut stations = answers.iter().filter_map(|answer| {
            Some(RadioLink::of(&attributes(&content(&answer.attributes, ATTR_STA_INFO)?)))
        });
        Ok(stations.next().filter(|_| stations.next().is_none()))
    }
}

impl RadioLink {
    fn of(fields: &[DefaultNla]) -> Self {
        let count = |wanted: u16| number(fields, wanted).unwrap_or(0);
        let rate = |wanted: u16| {
            let inside = attributes(&content(fields, wanted)?);
            // nl80211.h: a rate has an attribute of 16 bits and an attribute of 32 bits. A rate above 6.5535 Gbit/s has
            // only the attribute of 32 bits. Older kernels have only the attribute of 16 bits.
            let units = number(&inside, RATE_BITRATE32).or_else(|| number(&inside, RATE_BITRATE));
            units.filter(|units| *units > 0).map(|units| u64::from(units) * RATE_UNIT)
        };
        Self {
            signal_dbm: number(fields, STA_SIGNAL).map(|byte| (byte as u8).cast_signed()),
            transmit_bit_rate: rate(STA_TX_BITRATE),
            receive_bit_rate: rate(STA_RX_BITRATE),
            sent: count(STA_TX_PACKETS),
            sent_again: count(STA_TX_RETRIES),
            failed: count(STA_TX_FAILED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::generic::nest;

    fn fields(kind: u16, bytes: &[u8]) -> DefaultNla {
        DefaultNla::new(kind, bytes.to_vec())
    }

    /// The attributes have the types that drivers use: one byte for the signal, nested rates of 16 or 32 bits, counts
    /// of 32 bits.
    #[test]
    fn a_stations_numbers_are_read_in_the_kernels_units() {
        let both =
            [fields(RATE_BITRATE, &650_u16.to_ne_bytes()), fields(RATE_BITRATE32, &9000_u32.to_ne_bytes())];
        let link = RadioLink::of(&[
            fields(STA_SIGNAL, &[(-67_i8).cast_unsigned()]),
            nest(STA_TX_BITRATE, &both),
            nest(STA_RX_BITRATE, &[fields(RATE_BITRATE, &65_u16.to_ne_bytes())]),
            fields(STA_TX_PACKETS, &1000_u32.to_ne_bytes()),
            fields(STA_TX_RETRIES, &180_u32.to_ne_bytes()),
        ]);
        let expected = RadioLink {
            signal_dbm: Some(-67),
            transmit_bit_rate: Some(900_000_000),
            receive_bit_rate: Some(6_500_000),
            sent: 1000,
            sent_again: 180,
            failed: 0,
        };
        assert_eq!(link, expected);
        assert_eq!(RadioLink::of(&[]), RadioLink::default());
    }

    /// Loopback is not a wireless interface. If no wireless driver is loaded, the kernel returns an error.
    #[test]
    fn loopback_is_no_radio() {
        let link = Radios::open().and_then(|mut radios| radios.link(1));
        assert!(matches!(link, Ok(None) | Err(NetlinkError::Kernel(_))), "{link:?}");
    }
}
