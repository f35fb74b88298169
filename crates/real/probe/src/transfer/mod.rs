//! Transfers: how fast TCP carries so many bytes, by the metrics of RFC 6349, and how long a file takes by FTP.

mod ftp;
mod metrics;
mod tcp;
mod verdict;

pub use ftp::transfer as session;
pub use ftp::{FtpOrder, FtpReport, converse, ftp};
pub use metrics::{Framework, TcpPath};
pub use tcp::{TcpOrder, TcpReport, TcpSample, tcp};
pub use verdict::{LimitedBy, TransferLimit};

/// The file of 952,320 B: the transfer that papers on quality of service took for theirs.
pub const FILE_BYTES: u64 = 952_320;
