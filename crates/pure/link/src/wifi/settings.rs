//! A WiFi link as an experiment file describes it.

use netrig_core::{Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::standard::{Aggregation, Standard};
use crate::error::ensure;
use crate::{Loss, Queue, SettingsError};

/// One direction of a WiFi link, from the station at its near end to the station at its far end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WifiSettings {
    /// The generation, the same for all stations of a channel.
    pub standard: Standard,
    /// The bit rate of data frames, one of the rates of the standard. Acknowledgements are sent at the highest of 6, 12 and
    /// 24 Mbit/s that is not above it.
    pub rate: Rate,
    /// The queue of the sending station, for all its receivers.
    pub queue: Queue,
    /// The smallest contention window, slots. 15 if not given.
    #[serde(default = "cw_min")]
    pub cw_min: u32,
    /// The largest contention window, slots. 1023 if not given.
    #[serde(default = "cw_max")]
    pub cw_max: u32,
    /// Largest number of times that a frame is sent before it is given up. 7 if not given (dot11ShortRetryLimit).
    #[serde(default = "attempts")]
    pub attempts: u32,
    /// Several packets in one frame, HT only. One packet in each frame if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregation: Option<Aggregation>,
    /// Loss of frames on the air. It is drawn for each packet each time that it is sent. The link layer retransmits lost
    /// packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_loss: Option<Loss>,
    /// Loss of packets behind the link layer, after it has acknowledged them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Listed packets that are lost behind the link layer: their ordinals, from 1, in the order in which the far end receives
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<u64>,
    /// Time from the end of a frame until its packets arrive. Zero if not given.
    #[serde(default)]
    pub delay: Duration,
    /// The longest IP packet, at most 2296 B, which with LLC/SNAP is the longest MSDU. 2296 B if not given.
    #[serde(default = "mtu")]
    pub mtu: Size,
}

fn cw_min() -> u32 {
    15
}

fn cw_max() -> u32 {
    1023
}

fn attempts() -> u32 {
    7
}

/// The longest MSDU, 2304 B (IEEE Std 802.11-2016 table 9-19), minus LLC/SNAP.
const LARGEST_PACKET: u64 = 2304 - 8;

fn mtu() -> Size {
    Size::from_bytes(LARGEST_PACKET)
}

impl WifiSettings {
    /// A direction of this standard, rate and queue. All other fields have their defaults.
    pub fn new(standard: Standard, rate: Rate, queue: Queue) -> Self {
        Self {
            standard,
            rate,
            queue,
            cw_min: cw_min(),
            cw_max: cw_max(),
            attempts: attempts(),
            aggregation: None,
            frame_loss: None,
            loss: None,
            drop: Vec::new(),
            delay: Duration::ZERO,
            mtu: mtu(),
        }
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// If a field is out of range. The error names it.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.standard.check_rate(self.rate)?;
        self.queue.check().map_err(|e| e.within("queue"))?;
        ensure(!self.queue.is_of_classes(), "queue", "must not schedule classes, which only lines have")?;
        let powers = |window: u32| window < 1 << 15 && (window + 1).is_power_of_two();
        const WINDOW: &str = "must be a power of two less one, 0 to 32767";
        ensure(powers(self.cw_min), "cw_min", WINDOW)?;
        ensure(powers(self.cw_max), "cw_max", WINDOW)?;
        ensure(self.cw_min <= self.cw_max, "cw_max", "must not be below `cw_min`")?;
        ensure((1..=255).contains(&self.attempts), "attempts", "must be from 1 to 255")?;
        if let Some(aggregation) = &self.aggregation {
            ensure(
                self.standard.is_ht(),
                "aggregation",
                "needs 802.11n: 802.11g sends one packet in each frame",
            )?;
            aggregation.check().map_err(|e| e.within("aggregation"))?;
        }
        for (field, loss) in [("frame_loss", &self.frame_loss), ("loss", &self.loss)] {
            loss.as_ref().map_or(Ok(()), Loss::check).map_err(|e| e.within(field))?;
        }
        ensure(!self.drop.contains(&0), "drop", "counts packets from 1")?;
        let mtu = (1..=LARGEST_PACKET).contains(&self.mtu.bytes());
        ensure(mtu, "mtu", "must be from 1 to 2296 B, with LLC/SNAP the longest MSDU")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Result<WifiSettings, String> {
        let settings: WifiSettings = serde_json::from_value(value).map_err(|e| e.to_string())?;
        settings.check().map_err(|e| e.to_string()).map(|()| settings)
    }

    fn with(key: &str, value: serde_json::Value) -> Result<WifiSettings, String> {
        let mut table = json!({
            "standard": "802.11n", "rate": "65 Mbit/s", "queue": { "fifo": { "packets": 100 } },
        });
        table[key] = value;
        read(table)
    }

    #[test]
    fn a_short_description_is_enough() {
        let settings = with("delay", json!("0 s")).unwrap();
        assert_eq!((settings.cw_min, settings.cw_max, settings.attempts), (15, 1023, 7));
        assert_eq!(settings, WifiSettings::new(settings.standard, settings.rate, settings.queue.clone()));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (key, value, why) in [
            ("rate", json!("54 Mbit/s"), "`rate` must be a rate of this standard: 6.5 Mbit/s"),
            ("cw_min", json!(14), "`cw_min` must be a power of two less one"),
            ("cw_max", json!(7), "`cw_max` must not be below `cw_min`"),
            ("attempts", json!(0), "`attempts` must be from 1 to 255"),
            ("aggregation", json!({ "packets": 65 }), "`aggregation.packets` must be from 1 to 64"),
            ("aggregation", json!({ "time": "6 ms" }), "`aggregation.time` must be above zero and at most"),
            ("frame_loss", json!({ "periodic": { "every": 0 } }), "`frame_loss.every` must be at least 1"),
            ("mtu", json!("2297 B"), "`mtu` must be from 1 to 2296 B"),
            ("drop", json!([0]), "`drop` counts packets from 1"),
            ("standard", json!("802.11b"), "unknown variant `802.11b`"),
            ("ssid", json!("x"), "unknown field `ssid`"),
        ] {
            let error = with(key, value).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let aggregate = json!({
            "standard": "802.11g", "rate": "54 Mbit/s", "queue": { "fifo": { "packets": 100 } }, "aggregation": {},
        });
        assert!(read(aggregate).unwrap_err().contains("`aggregation` needs 802.11n"));
    }
}
