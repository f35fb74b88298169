//! Transfers: the throughput of TCP with the metrics of RFC 6349, and the duration of a file transfer by FTP.

mod ftp;
mod metrics;
mod settings;
mod tcp;
mod text;
mod verdict;

pub use ftp::transfer as session;
pub use ftp::{FtpOrder, FtpReport, converse, ftp};
pub use metrics::{Framework, TcpPath};
pub use settings::TransferSettings;
pub use tcp::{TcpOrder, TcpReport, TcpSample, tcp};
pub use verdict::{LimitedBy, TransferLimit};

/// Size of the file that several papers on quality of service transfer, bytes.
pub const FILE_BYTES: u64 = 952_320;
