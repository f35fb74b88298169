//! The settings of a measurement, and the order that they give.

use std::net::SocketAddr;

use netrig_core::{Duration, Rate, Size, choices, settings};
use netrig_host::HostAddress;
use netrig_host::socket::{Buffers, TcpOptions};

use super::error::{FEWEST, MeasureRequestError, SHORTEST};
use crate::measure::{CallOrder, Iperf3Order, MeasureOrder, MeasureTask, SearchTask};
use crate::protocol::{Carrier, DataDirection, DatagramLoad, MeasurementPhase, SHORTEST_INTERVAL};

/// Time for which the idle path is observed after the load.
const AFTER: Duration = Duration::from_millis(500);

/// Time between two echoes.
const ECHO_EVERY: Duration = Duration::from_millis(20);

/// Minimum time between two readings.
const EVERY: Duration = Duration::from_millis(100);

/// Minimum segment size of a socket in Linux, bytes (TCP_MIN_MSS).
const SHORTEST_SEGMENT: u64 = 88;

/// Default payload of datagrams at a given rate, bytes. Such datagrams fit every path.
const USUAL_SIZE: u16 = 1200;

/// Default maximum length of an SCTP packet, bytes. Even over IPv6 and UDP (RFC 6951), it fits every path (RFC 8200
/// section 5).
const SCTP_SIZE: u16 = 1232;

/// Time for which a search counts arrivals while it offers more than the line's capacity.
const COUNTS: Duration = Duration::from_millis(1000);
/// Time for which a search counts losses below the capacity.
const BENEATH: Duration = Duration::from_millis(500);
/// Maximum duration of a search.
const LONGEST_SEARCH: Duration = Duration::from_secs(45);

/// Headings of help texts.
const MEASUREMENT: &str = "Measurement";
const OWN_END: &str = "This end's connections";

settings! {
    /// The settings of a measurement.
    #[derive(Clone, Debug)]
    pub struct SpeedSettings with defaults {
        /// Time for which connections, or datagrams at a rate, carry data in each direction.
        time: Duration { heading: MEASUREMENT } = Duration::from_secs(3);
        /// Time for which the idle path is observed first; 0s for none.
        idle: Duration { heading: MEASUREMENT } = Duration::from_millis(700);
        /// Only the connections, or only the capacity for datagrams; a measurement of one alone shows less about the
        /// limit.
        only: Option<MeasuredPart> { heading: MEASUREMENT, value_name: "WHAT" };
        /// Number of connections that carry data at once, 1 to 128.
        streams: u16 { heading: MEASUREMENT, short: Some('P') } = 4;
        /// Only download.
        down: bool { heading: MEASUREMENT, excludes: &["up", "both"] };
        /// Only upload.
        up: bool { heading: MEASUREMENT, excludes: &["both"] };
        /// Also both directions at the same time, after each direction alone.
        both: bool { heading: MEASUREMENT };
        /// Associations of netrig's own SCTP over UDP (RFC 6951) instead of TCP connections.
        sctp: bool { heading: MEASUREMENT, excludes: &["udp", "iperf3", "congestion", "mss"] };
        /// Send only datagrams, at this payload rate.
        udp: Option<Rate> { heading: MEASUREMENT, excludes: &["streams", "only"] };
        /// Exponential gaps between datagrams instead of constant ones.
        poisson: bool { heading: MEASUREMENT, requires: &["udp"], excludes: &["iperf3"] };
        /// Highest rate that a search for the line's capacity offers.
        most: Rate { heading: MEASUREMENT, excludes: &["iperf3"] } = Rate::from_bits_per_s(100_000_000_000);
        /// Payload of each datagram. By default 1200 B with --udp, and in a search the largest that the path carries.
        /// With --sctp: size of the longest packet, by default 1232 B.
        size: Option<Size> { heading: MEASUREMENT };
        /// Congestion control of both ends: `cubic`, `reno`, `bbr`. By default that of each end.
        congestion: Option<String> { heading: MEASUREMENT, value_name: "NAME" };
        /// Do not open new connections during the load: no responsiveness is measured, and no capacity is used for it.
        no_rpm: bool { heading: MEASUREMENT };
        /// Largest segment that this end sends and announces (`TCP_MAXSEG`). By default, as for the next three, the kernel's
        /// choice.
        mss: Option<Size> { heading: OWN_END, excludes: &["iperf3"] };
        /// Largest window that this end announces (`TCP_WINDOW_CLAMP`).
        window: Option<Size> { heading: OWN_END, excludes: &["iperf3"] };
        /// Send buffer of this end (`SO_SNDBUF`).
        send_buffer: Option<Size> { heading: OWN_END, excludes: &["iperf3"] };
        /// Receive buffer of this end (`SO_RCVBUF`).
        receive_buffer: Option<Size> { heading: OWN_END, excludes: &["iperf3"] };
        /// Measure against an iperf3 server, by default at port 5201; --time must be whole seconds.
        iperf3: bool { heading: MEASUREMENT, excludes: &["key", "key_env", "trust"] };
    }
}

choices! {
    /// One of the two parts of a measurement.
    pub enum MeasuredPart {
        /// What TCP connections carry, or SCTP associations with --sctp.
        Connections = "connections",
        /// The capacity of the line for datagrams, found by a search.
        Capacity = "capacity",
    }
}

impl SpeedSettings {
    /// Checks the settings, so that invalid ones are refused before the server is called.
    ///
    /// # Errors
    /// The first invalid setting or combination.
    pub fn check(&self) -> Result<(), MeasureRequestError> {
        self.check_times()?;
        self.check_pairs()?;
        for task in self.tasks(0)? {
            match task {
                MeasureTask::Carry(phase) => phase.check(),
                MeasureTask::Search(search) => search.check(),
            }?;
        }
        let sizes = [
            ("--mss", self.mss, SHORTEST_SEGMENT),
            ("--window", self.window, 1),
            ("--send-buffer", self.send_buffer, 1),
            ("--receive-buffer", self.receive_buffer, 1),
        ];
        for (flag, size, least) in sizes {
            if let Some(size) = size.filter(|size| size.bytes() < least) {
                return Err(MeasureRequestError::Small { flag, size, least });
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), MeasureRequestError> {
        if self.time < SHORTEST {
            return Err(MeasureRequestError::ShortPhase(self.time));
        }
        if self.iperf3 && !self.time.as_nanos().is_multiple_of(1_000_000_000) {
            return Err(MeasureRequestError::PartOfSecond(self.time));
        }
        if self.idle.is_zero() {
            return Ok(());
        }
        if self.idle < SHORTEST_INTERVAL {
            return Err(MeasureRequestError::ShortIdle(self.idle));
        }
        Ok(MeasurementPhase::idle(self.idle).check()?)
    }

    /// Checks combinations of settings that cannot be measured.
    fn check_pairs(&self) -> Result<(), MeasureRequestError> {
        if self.most.bits_per_s() == 0 {
            return Err(MeasureRequestError::NoRate);
        }
        if self.sctp && self.only == Some(MeasuredPart::Capacity) {
            return Err(MeasureRequestError::SctpSearch);
        }
        let Some(rate) = self.udp else { return Ok(()) };
        let size = self.size.map_or(USUAL_SIZE.into(), Size::bytes).max(1);
        let datagrams = rate.bits_per_s() as f64 / 8.0 / size as f64 * self.time.as_secs_f64();
        if datagrams < FEWEST {
            return Err(MeasureRequestError::FewDatagrams { rate, size, time: self.time });
        }
        Ok(())
    }

    /// The order for a measurement by netrig's own protocol. The rate and the socket options in `call` are taken from
    /// the settings. The seed determines the exponential gaps.
    ///
    /// # Errors
    /// The first invalid setting or combination.
    pub fn order(&self, call: CallOrder, seed: u64) -> Result<MeasureOrder, MeasureRequestError> {
        Ok(MeasureOrder {
            call: CallOrder { rate: self.udp, options: self.options()?, ..call },
            idle: self.idle,
            tasks: self.tasks(seed)?,
            after: AFTER,
            echo_every: ECHO_EVERY,
            responsive: !self.no_rpm,
        })
    }

    /// The order for a measurement against an iperf3 server. Such a measurement has no search for the line's capacity.
    ///
    /// # Errors
    /// The first invalid setting or combination.
    pub fn iperf3_order(&self, server: SocketAddr) -> Result<Iperf3Order, MeasureRequestError> {
        // iperf3's gaps are constant, so the seed does not matter.
        let phases = self.tasks(0)?.into_iter().filter_map(|task| match task {
            MeasureTask::Carry(phase) => Some(phase),
            MeasureTask::Search(_) => None,
        });
        let order =
            Iperf3Order { server, host: HostAddress::from(server).to_string(), phases: phases.collect() };
        if order.phases.is_empty() { Err(MeasureRequestError::Iperf3Search) } else { Ok(order) }
    }

    /// The tasks of a measurement, in order. The seed determines the exponential gaps.
    fn tasks(&self, seed: u64) -> Result<Vec<MeasureTask>, MeasureRequestError> {
        let ways = match (self.down, self.up, self.both) {
            (true, ..) => &[DataDirection::Down][..],
            (_, true, _) => &[DataDirection::Up],
            (.., true) => &[DataDirection::Down, DataDirection::Up, DataDirection::Both],
            _ => &[DataDirection::Down, DataDirection::Up],
        };
        let size = self.size.map(|size| u16::try_from(size.bytes())).transpose();
        let size = size.map_err(|_| MeasureRequestError::LongDatagram)?;
        let carry = |carrier: Carrier| {
            let every = MeasurementPhase::interval(&carrier, self.time, EVERY);
            MeasureTask::Carry(MeasurementPhase::new(carrier, self.time, every))
        };
        if let Some(rate) = self.udp {
            let bits_per_s = rate.bits_per_s();
            let load = if self.poisson {
                DatagramLoad::Poisson { bits_per_s, seed }
            } else {
                DatagramLoad::Fixed { bits_per_s }
            };
            let size = size.unwrap_or(USUAL_SIZE);
            return Ok(ways.iter().map(|way| carry(Carrier::Udp { way: *way, size, load })).collect());
        }
        let streams = self.streams;
        let connections = ways.iter().map(|way| {
            carry(if self.sctp {
                Carrier::Sctp { way: *way, streams, size: size.unwrap_or(SCTP_SIZE) }
            } else {
                Carrier::Tcp { way: *way, streams, congestion: self.congestion.clone() }
            })
        });
        let search = ways.iter().filter(|way| **way != DataDirection::Both).map(|way| {
            MeasureTask::Search(SearchTask {
                way: *way,
                size,
                most: self.most,
                counts: COUNTS,
                beneath: BENEATH,
                lasts: LONGEST_SEARCH,
            })
        });
        Ok(match self.only {
            Some(MeasuredPart::Connections) => connections.collect(),
            Some(MeasuredPart::Capacity) => search.collect(),
            None => connections.chain(search).collect(),
        })
    }

    /// The socket options of this end's connections.
    fn options(&self) -> Result<TcpOptions, MeasureRequestError> {
        let bytes = |flag: &'static str, size: Option<Size>| {
            let bytes = size.map(|size| u32::try_from(size.bytes())).transpose();
            bytes.map_err(|_| MeasureRequestError::Large(flag))
        };
        let segment = self.mss.map(|size| u16::try_from(size.bytes())).transpose();
        Ok(TcpOptions {
            max_segment: segment.map_err(|_| MeasureRequestError::LongSegment)?,
            window_clamp: bytes("--window", self.window)?,
            buffers: Buffers {
                send: bytes("--send-buffer", self.send_buffer)?,
                receive: bytes("--receive-buffer", self.receive_buffer)?,
            },
            ..TcpOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::setting::SettingsTable as _;

    use super::*;

    /// The default settings with these changes.
    fn settings(changes: &[(&str, &[&str])]) -> SpeedSettings {
        let mut settings = SpeedSettings::default();
        for (key, words) in changes {
            settings.set(key, words).unwrap();
        }
        settings
    }

    #[test]
    fn by_default_connections_then_searches_measure_each_direction() {
        let usual = SpeedSettings::default();
        usual.check().unwrap();
        let carries: Vec<_> =
            usual.tasks(1).unwrap().iter().map(|task| matches!(task, MeasureTask::Carry(_))).collect();
        assert_eq!(carries, [true, true, false, false]);
        assert_eq!(settings(&[("udp", &["1Mbit/s"]), ("both", &[])]).tasks(1).unwrap().len(), 3);
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_the_reason() {
        for (changes, said) in [
            (&[("time", &["400ms"][..])][..], "--time 400 ms: expected 500 ms or more"),
            (&[("time", &["1.5s"]), ("iperf3", &[])], "--time 1.5 s: iperf3 takes whole seconds"),
            (&[("idle", &["1ms"])], "--idle 1 ms: expected 10 ms or more"),
            (&[("most", &["0bit/s"])], "--most 0bit/s"),
            (&[("sctp", &[]), ("only", &["capacity"])], "--only capacity --sctp"),
            (&[("udp", &["1kbit/s"])], "--udp 1 kbit/s: that is less than 10 datagrams of 1200 B within 3 s"),
            (&[("size", &["70KB"])], "--size: a datagram has at most 65507 B"),
            (&[("mss", &["87B"])], "--mss 87 B: expected 88 B or more"),
            (&[("window", &["0B"])], "--window 0 B: expected 1 B or more"),
        ] {
            let error = settings(changes).check().unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        assert!(matches!(settings(&[("mss", &["70KB"])]).options(), Err(MeasureRequestError::LongSegment)));
        let search = settings(&[("only", &["capacity"]), ("iperf3", &[])]);
        let refused = search.iperf3_order(([127, 0, 0, 1], 5201).into());
        assert!(matches!(refused, Err(MeasureRequestError::Iperf3Search)));
    }
}
