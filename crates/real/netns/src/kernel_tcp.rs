//! Converts the constants of a TCP transport to settings of the kernel's TCP.

use netrig_core::Size;
use netrig_experiment::Unsupported;
use netrig_host::socket::{Buffers, TcpOptions};
use netrig_host::sysctl;
use netrig_transport::Profile;
use netrig_transport::tcp::{Config, EcnMode, IdleRestart, Limit, Nagle, Recovery};
use serde_json::Value;

use crate::error::unsupported;
use crate::receive_buffer::ReceiveBuffer;

/// Constants that a socket option or a sysctl can set. All other constants are fixed in the kernel, with the values
/// of the profile `linux`.
const SETTABLE: [&str; 16] = [
    "congestion",
    "recovery",
    "dup_ack_threshold",
    "frto",
    "tail_loss_probe",
    "ecn",
    "sack",
    "dsack",
    "timestamps",
    "window_scaling",
    "mss",
    "receive_buffer",
    "idle_restart",
    "nagle",
    "syn_retries",
    "data_retries",
];

/// Settings of the kernel's TCP for a transport.
pub(crate) struct KernelTcp {
    /// For each socket.
    pub options: TcpOptions,
    /// For the namespaces of both ends.
    pub sysctls: Vec<(String, String)>,
}

impl KernelTcp {
    /// The settings for the constants `config` of the transport `transport`, if segments of up to `segment` arrive.
    ///
    /// # Errors
    /// If the kernel cannot use the value of a constant. The message names the constant.
    pub fn of(config: &Config, segment: Size, transport: &str) -> Result<Self, Unsupported> {
        let linux = Config::of(Profile::Linux);
        let others = differing(config, &linux);
        if !others.is_empty() {
            return unsupported(format!(
                "the kernel's TCP has fixed values of {}, and those of transport `{transport}` differ from the profile `linux`",
                others.join(", ")
            ));
        }
        let congestion = word(&config.congestion);
        let available = available();
        if !available.contains(&congestion) {
            return unsupported(format!(
                "this kernel has no congestion control `{congestion}` (transport `{transport}`); it has {}",
                available.join(", ")
            ));
        }
        let options = TcpOptions {
            multipath: false,
            paths: Vec::new(),
            congestion: Some(congestion),
            max_segment: u16::try_from(config.mss.bytes()).ok().filter(|_| config.mss != linux.mss),
            window_clamp: u32::try_from(config.receive_buffer.bytes())
                .ok()
                .filter(|_| config.receive_buffer != linux.receive_buffer),
            no_delay: config.nagle == Nagle::Off,
            buffers: Buffers {
                send: None,
                receive: (config.receive_buffer != linux.receive_buffer)
                    .then(|| ReceiveBuffer::of_this_kernel().that_offers(config, segment))
                    .and_then(|bytes| u32::try_from(bytes).ok()),
            },
        };
        Ok(Self { options, sysctls: sysctls(config, transport)? })
    }
}

/// The names of constants that differ from those of Linux and cannot be set.
fn differing(config: &Config, linux: &Config) -> Vec<String> {
    let [Ok(Value::Object(ours)), Ok(Value::Object(theirs))] = [config, linux].map(serde_json::to_value)
    else {
        return Vec::new();
    };
    let differ = |name: &&String| ours.get(*name) != theirs.get(*name) && !SETTABLE.contains(&name.as_str());
    ours.keys().filter(differ).map(|name| format!("`{name}`")).collect()
}

/// The value of a constant as it is written in an experiment file.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The congestion controls that the kernel has loaded.
fn available() -> Vec<String> {
    let list = sysctl::get("net.ipv4.tcp_available_congestion_control");
    list.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// "Bit 0 of tcp_recovery: RACK loss detection" (ip-sysctl). Without it SACK recovery applies, and without
/// SACK NewReno.
fn recovery(config: &Config, transport: &str) -> Result<&'static str, Unsupported> {
    match config.recovery {
        Recovery::Rack => Ok("1"),
        Recovery::Sack if config.sack => Ok("0"),
        Recovery::Newreno if !config.sack => Ok("0"),
        other => unsupported(format!(
            "the kernel's TCP has no recovery `{}` with `sack = {}` (transport `{transport}`)",
            word(&other),
            config.sack
        )),
    }
}

fn slow_start_after_idle(config: &Config, transport: &str) -> Result<&'static str, Unsupported> {
    match config.idle_restart {
        IdleRestart::None => Ok("0"),
        IdleRestart::Decay => Ok("1"),
        IdleRestart::InitialWindow => unsupported(format!(
            "the kernel's TCP lets an idle window decay or stay, but transport `{transport}` resets it"
        )),
    }
}

fn sysctls(config: &Config, transport: &str) -> Result<Vec<(String, String)>, Unsupported> {
    let count = |limit: Limit| match limit {
        Limit::Count(n) => n.to_string(),
        // 255 is the maximum of these settings (tcp(7)).
        Limit::Unbounded(_) => "255".to_owned(),
    };
    let ecn = match config.ecn {
        EcnMode::Off => "0",
        EcnMode::Request => "1",
        EcnMode::Accept => "2",
    };
    let switch = |on: bool| if on { "1" } else { "0" }.to_owned();
    let settings = [
        ("tcp_sack", switch(config.sack)),
        ("tcp_dsack", switch(config.dsack)),
        ("tcp_timestamps", switch(config.timestamps)),
        ("tcp_window_scaling", switch(config.window_scaling)),
        ("tcp_ecn", ecn.to_owned()),
        ("tcp_recovery", recovery(config, transport)?.to_owned()),
        ("tcp_frto", if config.frto { "2" } else { "0" }.to_owned()),
        ("tcp_early_retrans", if config.tail_loss_probe { "3" } else { "0" }.to_owned()),
        ("tcp_reordering", config.dup_ack_threshold.to_string()),
        ("tcp_slow_start_after_idle", slow_start_after_idle(config, transport)?.to_owned()),
        ("tcp_syn_retries", count(config.syn_retries)),
        ("tcp_retries2", count(config.data_retries)),
        // A connection must not use the path metrics of an earlier connection.
        ("tcp_no_metrics_save", "1".to_owned()),
    ];
    Ok(settings.into_iter().map(|(name, value)| (format!("net.ipv4.{name}"), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &str) -> Result<KernelTcp, Unsupported> {
        let settings = serde_json::from_str(settings).unwrap();
        let config = Config::of(Profile::Linux).with(&settings);
        KernelTcp::of(&config, config.mss, "tcp")
    }

    #[test]
    fn every_constant_that_can_be_set_is_one() {
        let names: Vec<_> = Config::constants(Profile::Linux).iter().map(|constant| constant.name).collect();
        assert!(SETTABLE.iter().all(|name| names.contains(name)));
    }

    #[test]
    fn the_profile_linux_is_the_kernel_as_it_is() {
        let kernel = of("{}").unwrap();
        assert_eq!(kernel.options.congestion.as_deref(), Some("cubic"));
        assert_eq!((kernel.options.max_segment, kernel.options.buffers), (None, Buffers::default()));
        assert!(kernel.sysctls.contains(&("net.ipv4.tcp_recovery".into(), "1".into())));
    }

    #[test]
    fn what_a_socket_can_have_it_is_given() {
        let kernel =
            of(r#"{"congestion": "reno", "mss": "1000 B", "receive_buffer": "64 KB", "nagle": "off"}"#)
                .unwrap();
        let TcpOptions { congestion, max_segment, no_delay, buffers, window_clamp, .. } = kernel.options;
        assert_eq!(window_clamp, Some(64_000));
        assert_eq!((congestion.as_deref(), max_segment, no_delay), (Some("reno"), Some(1000), true));
        let config = Config {
            mss: Size::from_bytes(1000),
            receive_buffer: Size::from_bytes(64_000),
            ..Config::of(Profile::Linux)
        };
        let buffer = ReceiveBuffer::of_this_kernel().that_offers(&config, config.mss);
        assert_eq!(buffers.receive.map(u64::from), Some(buffer));
    }

    #[test]
    fn a_congestion_control_is_the_kernels_or_refused_with_what_it_has() {
        for name in ["reno", "cubic", "bbr"] {
            let kernel = of(&format!(r#"{{"congestion": "{name}"}}"#));
            if available().iter().any(|there| there == name) {
                assert_eq!(kernel.ok().unwrap().options.congestion.as_deref(), Some(name));
            } else {
                let why = kernel.err().unwrap().0;
                assert!(why.ends_with(&format!("it has {}", available().join(", "))), "{why}");
            }
        }
    }

    #[test]
    fn what_the_kernel_does_its_own_way_is_named() {
        let why = of(r#"{"rto_min": "1 s", "initial_window": 2}"#).err().unwrap().0;
        assert!(why.contains("`initial_window`, `rto_min`"), "{why}");
        let ns2 = Config::of(Profile::Ns2);
        let why = KernelTcp::of(&ns2, ns2.mss, "old").err().unwrap().0;
        assert!(why.contains("transport `old`"), "{why}");
        let why = of(r#"{"congestion": "tahoe"}"#).err().unwrap().0;
        assert!(why.contains("no congestion control `tahoe`"), "{why}");
    }
}
