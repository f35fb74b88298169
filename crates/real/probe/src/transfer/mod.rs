//! Transfers: the throughput of TCP with the metrics of RFC 6349, and the duration of a file transfer by FTP.

mod ftp;
mod metrics;
mod settings;
mod tcp;
mod text;

pub use ftp::transfer as session;
pub use ftp::{FtpOrder, FtpReport, converse, ftp};
pub use metrics::{Framework, TcpPath};
pub use settings::TransferSettings;
pub use tcp::{TcpReport, TcpSample, tcp};

use netrig_bulk::LimitingFactor;

/// Why a transfer with this limit does not measure the path, and what to do.
fn fault(limit: &LimitingFactor) -> String {
    let advice = limit.advice().map(|advice| format!("; to mend it: {advice}"));
    limit.explanation("the transfer") + &advice.unwrap_or_default()
}

/// Size of the file that several papers on quality of service transfer, bytes.
pub const FILE_BYTES: u64 = 952_320;
