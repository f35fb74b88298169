//! Presets of access lines: the constants of both directions, each with its source.
//!
//! A standard defines the capacity and the framing of a line. It seldom defines the rate of a service and never defines
//! buffer sizes. These constants are chosen here. Their sources say "chosen" and give the rule.

use netrig_core::{Duration, Rate, Size, named};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::queue::fifo::Fifo;
use crate::{Framing, LineSettings, Queue};

named! {
    /// The constants of an access line: rates, framing, delays, buffers and MTU. A value that the link sets itself takes
    /// precedence. The first node of the link is the subscriber: `forward` is upstream.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    pub enum Preset {
        /// Ethernet on twisted pair at 10 Mbit/s.
        #[serde(rename = "10baset")]
        TenBaseT = "10baset",
        /// ADSL with PPP over Ethernet on ATM.
        Adsl = "adsl",
        /// ADSL2+ with PPP over Ethernet on ATM.
        #[serde(rename = "adsl2+")]
        Adsl2Plus = "adsl2+",
        /// VDSL2 with PPP over Ethernet in packet transfer mode.
        Vdsl2 = "vdsl2",
        /// A cable modem.
        Docsis = "docsis",
        /// A passive optical network.
        Gpon = "gpon",
        /// A cellular line of LTE.
        Lte = "lte",
        /// A geostationary satellite.
        Geo = "geo",
        /// Satellites in low orbits.
        Leo = "leo",
    }
}

/// A constant of a preset as `netrig show preset` prints it, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConstant {
    /// The link's key in the experiment file.
    pub name: &'static str,
    /// The downstream value, as the experiment file writes it.
    pub down: String,
    /// The upstream value, as the experiment file writes it.
    pub up: String,
    /// The source of both values.
    pub source: &'static str,
}

/// The constants of an access line and their sources. In each pair the downstream value comes first.
#[derive(Clone, Copy, Debug)]
struct PresetTable {
    rate: [Rate; 2],
    framing: Framing,
    delay: [Duration; 2],
    /// The limit of the FIFO queue.
    room: Duration,
    mtu: Size,
    /// The sources of the rate, the framing, the delay, the queue limit and the MTU, in this order.
    sources: [&'static str; 5],
}

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_s(rate * 1_000_000)
}

const fn kbit(rate: u64) -> Rate {
    Rate::from_bits_per_s(rate * 1_000)
}

const fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

const fn us(time: u64) -> Duration {
    Duration::from_micros(time)
}

/// The MTU of Ethernet (`WHOLE`) and of PPP over Ethernet (`BEHIND_PPPOE`).
const WHOLE: Size = Size::from_bytes(1500);
const BEHIND_PPPOE: Size = Size::from_bytes(1492);
const ETHERNET_MTU: &str = "IEEE 802.3 clause 3.2.7";
const PPPOE_MTU: &str = "RFC 2516 section 7: 8 B less than a frame of Ethernet carries";

/// The limit of a queue if no source defines one.
const ROOM: Duration = ms(250);
const RULE: &str = "chosen: a round trip of 250 ms, the rule of Villamizar and Song 1994 as Appenzeller, Keslassy and McKeown \
                    2004 report it; no standard says";
/// The source of an interleaving delay that the operator sets.
const INTERLEAVING: &str =
    "chosen: the operator sets the longest interleaving, in milliseconds up to 63 (ITU-T G.997.1, DELAYMAX)";
const ON_ATM: &str = "RFC 2516 over RFC 2684 section 5.2 and ITU-T I.363.5";

impl Preset {
    /// Short description.
    pub const fn title(self) -> &'static str {
        match self {
            Self::TenBaseT => "Ethernet on twisted pair, 10 Mbit/s both ways at once",
            Self::Adsl => "ADSL, PPP over Ethernet on ATM",
            Self::Adsl2Plus => "ADSL2+, PPP over Ethernet on ATM",
            Self::Vdsl2 => "VDSL2, PPP over Ethernet in packet transfer mode",
            Self::Docsis => "a cable modem, DOCSIS 3.0",
            Self::Gpon => "a passive optical network, GPON",
            Self::Lte => "a cellular line, LTE of category 4 with a cell of its own",
            Self::Geo => "a geostationary satellite",
            Self::Leo => "satellites in low orbits",
        }
    }

    /// The lines of both directions, upstream first.
    pub fn lines(self) -> [LineSettings; 2] {
        let PresetTable { rate, framing, delay, room, mtu, .. } = self.table();
        let line = |way: usize| {
            let queue = Queue::Fifo(Fifo { time: Some(room), ..Fifo::default() });
            LineSettings { framing, mtu: Some(mtu), ..LineSettings::new(rate[way], delay[way], queue) }
        };
        [line(1), line(0)]
    }

    /// The constants of the preset. All presets have the same keys.
    pub fn constants(self) -> [AccessConstant; 5] {
        let PresetTable { rate, framing, delay, room, mtu, sources } = self.table();
        let [of_rate, of_framing, of_delay, of_room, of_mtu] = sources;
        let constant = |name, [down, up]: [String; 2], source| AccessConstant { name, down, up, source };
        let both = |name, value: String, source| constant(name, [value.clone(), value], source);
        [
            constant("rate", rate.map(|rate| rate.to_string()), of_rate),
            both("framing", framing.name().to_owned(), of_framing),
            constant("delay", delay.map(|delay| delay.to_string()), of_delay),
            both("queue", format!("{{ kind = \"fifo\", time = \"{room}\" }}"), of_room),
            both("mtu", format!("{} B", mtu.bytes()), of_mtu),
        ]
    }

    fn table(self) -> PresetTable {
        match self {
            Self::TenBaseT => PresetTable {
                rate: [mbit(10); 2],
                framing: Framing::Ethernet,
                delay: [Duration::from_nanos(25_600); 2],
                room: ms(123),
                mtu: WHOLE,
                sources: [
                    "IEEE 802.3 clause 14",
                    "IEEE 802.3 clauses 3 and 4",
                    "half of the slot time, 512 bits: the longest round trip that a collision may take (IEEE 802.3 clause 4.4.2)",
                    "100 frames of 1538 B, the transmit queue of Ethernet in Linux 2.4 (ether_setup, drivers/net/net_init.c)",
                    ETHERNET_MTU,
                ],
            },
            Self::Adsl => PresetTable {
                rate: [kbit(6_144), kbit(640)],
                framing: Framing::PppoeAtm,
                delay: [ms(20), ms(6)],
                room: ROOM,
                mtu: BEHIND_PPPOE,
                sources: [
                    "ITU-T G.992.1: what all transceivers support",
                    ON_ATM,
                    "ITU-T G.992.1, the interleaved path: 4 ms + (S − 1)/4 ms + S·D/4 ms with S = 1 and the largest depths \
                     that all transceivers have, D = 64 down and 8 up",
                    RULE,
                    PPPOE_MTU,
                ],
            },
            Self::Adsl2Plus => PresetTable {
                rate: [mbit(16), kbit(800)],
                framing: Framing::PppoeAtm,
                delay: [ms(8); 2],
                room: ROOM,
                mtu: BEHIND_PPPOE,
                sources: [
                    "ITU-T G.992.5: what all transceivers support",
                    ON_ATM,
                    INTERLEAVING,
                    RULE,
                    PPPOE_MTU,
                ],
            },
            Self::Vdsl2 => PresetTable {
                rate: [mbit(80), mbit(20)],
                framing: Framing::PppoePtm,
                delay: [ms(8); 2],
                room: ROOM,
                mtu: BEHIND_PPPOE,
                sources: [
                    "chosen: a service that takes the 100 Mbit/s of both directions together which profile 17a has at least \
                     (ITU-T G.993.2 table 6-1)",
                    "RFC 2516 over ITU-T G.993.2 annex K",
                    INTERLEAVING,
                    RULE,
                    PPPOE_MTU,
                ],
            },
            Self::Docsis => PresetTable {
                rate: [mbit(100), mbit(10)],
                framing: Framing::Docsis,
                delay: [ms(1), ms(5)],
                room: ROOM,
                mtu: WHOLE,
                sources: [
                    "chosen: a service; the operator sets it (CM-SP-MULPIv3.0 annex C, Maximum Sustained Traffic Rate)",
                    "CM-SP-MULPIv3.0 annex C: what that rate counts",
                    "chosen: down interleaving alone; up the middle of the 2 to 8 ms for a request and its grant (CableLabs, Low \
                     Latency DOCSIS: Technology Overview, 2019)",
                    RULE,
                    ETHERNET_MTU,
                ],
            },
            Self::Gpon => PresetTable {
                rate: [kbit(311_040), kbit(155_520)],
                framing: Framing::Gpon,
                delay: [us(1_500); 2],
                room: ROOM,
                mtu: WHOLE,
                sources: [
                    "chosen: an eighth of 2488.32 and 1244.16 Mbit/s (ITU-T G.984.2), which eight that are busy share",
                    "ITU-T G.984.3 clause 8.3",
                    "ITU-T G.984.1: the largest mean signal transfer delay",
                    RULE,
                    ETHERNET_MTU,
                ],
            },
            Self::Lte => PresetTable {
                rate: [kbit(150_752), kbit(51_024)],
                framing: Framing::None,
                delay: [us(7_500), ms(17)],
                room: ROOM,
                mtu: Size::from_bytes(1358),
                sources: [
                    "3GPP TS 36.306 tables 4.1-1 and 4.1-2, category 4: the largest transport blocks of a millisecond",
                    "chosen: some 6 B of PDCP, RLC and MAC are left out",
                    "3GPP TR 36.881 clause 5.2.1: what the radio takes, up with a scheduling request",
                    RULE,
                    "3GPP TS 23.060 annex C: what is not cut where the operator's network carries 1500 B",
                ],
            },
            Self::Geo => PresetTable {
                rate: [mbit(12), mbit(3)],
                framing: Framing::None,
                delay: [ms(279); 2],
                room: ms(558),
                mtu: WHOLE,
                sources: [
                    "chosen: a service (FCC, Measuring Broadband America, February 2013: 12 Mbit/s by satellite)",
                    "chosen: operators sell rates of IP",
                    "RFC 2488 section 2: both ground stations at the edge of what the satellite sees",
                    "chosen: a round trip of the line, by the rule of Villamizar and Song 1994",
                    ETHERNET_MTU,
                ],
            },
            Self::Leo => PresetTable {
                rate: [mbit(100), mbit(10)],
                framing: Framing::None,
                delay: [ms(20); 2],
                room: ROOM,
                mtu: WHOLE,
                sources: [
                    "chosen: within 25 to 220 Mbit/s down and 5 to 20 Mbit/s up (Starlink Specifications, 2023)",
                    "chosen: operators sell rates of IP",
                    "chosen: half of a round trip within 25 to 60 ms (Starlink Specifications, 2023)",
                    RULE,
                    ETHERNET_MTU,
                ],
            },
        }
    }
}

/// The normalised asymmetry of an access line (*k* in RFC 3449 section 3.1): the ratio of the rates divided by the
/// ratio of the lengths on the line, for a packet of `data` bytes and an acknowledgement of `ack` bytes.
///
/// If a receiver acknowledges each packet and the ratio is above 1, the acknowledgements fill the upstream line first.
/// If it acknowledges every second packet, this happens above 2.
pub fn asymmetry(down: &LineSettings, up: &LineSettings, data: u32, ack: u32) -> f64 {
    let rates = down.rate.bits_per_s() as f64 / up.rate.bits_per_s() as f64;
    let lengths = down.framing.line_bytes(data) as f64 / up.framing.line_bytes(ack) as f64;
    rates / lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(bits_per_s: u64) -> LineSettings {
        let queue = Queue::Fifo(Fifo { packets: Some(1), ..Fifo::default() });
        LineSettings::new(Rate::from_bits_per_s(bits_per_s), Duration::ZERO, queue)
    }

    /// The example of RFC 3449 section 3.1: 10 Mbit/s down and 50 kbit/s up, 1000 B of data and 40 B of acknowledgement.
    #[test]
    fn the_example_of_the_rfc_has_a_ratio_of_eight() {
        assert!((asymmetry(&line(10_000_000), &line(50_000), 1000, 40) - 8.0).abs() < 1e-12);
    }

    /// On ATM 1492 B take 32 cells and an acknowledgement takes two: a ratio of rates of 20 is an asymmetry of 1.25.
    #[test]
    fn cells_make_a_line_more_asymmetric() {
        let atm = |bits_per_s| LineSettings { framing: Framing::PppoeAtm, ..line(bits_per_s) };
        assert!((asymmetry(&atm(16_000_000), &atm(800_000), 1492, 52) - 1.25).abs() < 1e-12);
    }

    #[test]
    fn names_are_those_of_the_file() {
        for preset in Preset::ALL {
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.name());
            for line in preset.lines() {
                assert_eq!(line.check(), Ok(()), "{preset:?}");
                assert_eq!(serde_json::to_value(line.framing).unwrap(), line.framing.name());
            }
        }
    }

    /// The constants that are printed equal the settings of both lines, as a file writes them.
    #[test]
    fn constants_are_those_of_the_lines() {
        for preset in Preset::ALL {
            let [up, down] = preset.lines();
            for AccessConstant { name, down: shown_down, up: shown_up, source } in preset.constants() {
                let of = |line: &LineSettings| serde_json::to_value(line).unwrap()[name].clone();
                for (line, shown) in [(&down, shown_down), (&up, shown_up)] {
                    match of(line) {
                        serde_json::Value::String(_) if name == "mtu" => {
                            assert_eq!(line.mtu, Some(shown.parse().unwrap()));
                        }
                        serde_json::Value::String(value) => assert_eq!(value, shown, "{preset:?}"),
                        queue => {
                            let time = queue["fifo"]["time"].as_str().unwrap();
                            assert!(shown.contains(&format!("\"{time}\"")), "{preset:?}: {shown}");
                        }
                    }
                }
                assert!(!source.is_empty());
            }
        }
    }
}
