//! The settings of a transfer, and the order of a transfer by FTP.

use std::net::SocketAddr;

use netrig_core::setting::{AboveZero, Within};
use netrig_core::{Dscp, Duration, Rate, Size, settings};
use netrig_host::socket::TcpOptions;
use netrig_traffic::FtpDirection;

use super::{FILE_BYTES, FtpOrder};
use crate::receiver::MOST_CONNECTIONS;

/// Default amount of data over TCP, bytes.
const TCP_BYTES: u64 = 10_000_000;

/// Heading of the FTP settings in help texts.
const FTP: &str = "FTP (--ftp)";

settings! {
    /// The settings of a transfer.
    #[derive(Clone, Debug)]
    pub struct TransferSettings with defaults {
        /// Amount of data. By default 10 MB over TCP, 952320 B by FTP.
        bytes: Option<Size> as AboveZero {};
        /// Connections at the same time, 1 to 64.
        streams: u16 as Within<1, { MOST_CONNECTIONS as u64 }> {} = 1;
        /// Congestion control of the kernel: `reno`, `cubic`, `bbr`. By default the kernel's.
        congestion: Option<String> { value_name: "NAME" };
        /// Code point to send with: `ef`, `af11`, `cs5` or 0 to 63.
        dscp: Dscp {} = Dscp::BE;
        /// Rate of the path in IP packets, to which RFC 6349's ratio of transfer times refers.
        bottleneck: Option<Rate> { excludes: &["ftp"] };
        /// Time between two readings of the kernel's connection state.
        sample_every: Duration as AboveZero { excludes: &["ftp"] } = Duration::from_millis(100);
        /// Transfer a file by FTP, passive, with any server (port 21).
        ftp: bool { heading: FTP, excludes: &["streams", "key", "key_env"] };
        /// User to log in as.
        user: String { heading: FTP, value_name: "NAME", requires: &["ftp"] } = "anonymous".to_owned();
        /// Environment variable with the password.
        password_env: Option<String> { heading: FTP, value_name: "NAME", requires: &["ftp"] };
        /// Fetch this file. By default, a file is stored and then deleted.
        download: Option<String> { heading: FTP, value_name: "NAME", requires: &["ftp"] };
        /// Time after which the session is ended.
        patience: Duration { heading: FTP } = Duration::from_secs(300);
    }
}

impl TransferSettings {
    /// Amount of data of a transfer over TCP, bytes.
    pub(super) fn tcp_bytes(&self) -> u64 {
        self.bytes.map_or(TCP_BYTES, Size::bytes)
    }

    /// The order of a transfer by FTP, with the password of the user. Without one, it is the password of anonymous
    /// users.
    pub fn ftp_order(&self, server: SocketAddr, password: Option<String>) -> FtpOrder {
        let (direction, file, most) = match &self.download {
            Some(name) => (FtpDirection::Fetch, name.clone(), u64::MAX),
            None => (FtpDirection::Store, format!("netrig-probe-{}", std::process::id()), FILE_BYTES),
        };
        FtpOrder {
            server,
            user: self.user.clone(),
            // RFC 1635: anonymous users give their address as the password.
            password: password.unwrap_or_else(|| "netrig@".to_owned()),
            direction,
            file,
            bytes: self.bytes.map_or(most, Size::bytes),
            options: self.options(),
            dscp: self.dscp.0,
            patience: self.patience,
        }
    }

    /// The options of the data connections.
    pub(super) fn options(&self) -> TcpOptions {
        TcpOptions { congestion: self.congestion.clone(), ..TcpOptions::default() }
    }
}
