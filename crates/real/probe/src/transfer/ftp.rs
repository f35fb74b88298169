//! Transfers a file by passive FTP (RFC 959; over IPv6 RFC 2428). It works with any server.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration as StdDuration, Instant as StdInstant};

use netrig_core::Duration;
use netrig_traffic::FtpDirection;
use suppaftp::types::{FileType, FtpError};
use suppaftp::{FtpStream, Mode};

use super::fault;
use crate::{ProbeError, ProbeResult};
use netrig_bulk::{
    ConnectionCounts, ConnectionSummary, Effort, EndReport, HostCounters, LimitingFactor, MeasuredHost,
    PathDelays, StreamCounts, TransferEnds,
};
use netrig_host::socket::TcpOptions;
use netrig_host::socket::{SocketBuilder, hold_window};
use netrig_host::{HostAddress, InterruptionCounts, Precedence, TcpCounts, TcpInfo, monotonic_nanos};

/// Maximum number of bytes in one read or write.
const BLOCK: usize = 64 << 10;

/// Interval at which the time limit and the interruption of a session are checked.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(20);

/// Time limit for the deletion of a file that a failed session left at the server.
const CLEARING: StdDuration = StdDuration::from_secs(10);

/// Settings of a transfer.
#[derive(Clone, Debug)]
pub struct FtpOrder {
    /// The server.
    pub server: SocketAddr,
    /// User name, such as `anonymous`.
    pub user: String,
    /// The password.
    pub password: String,
    /// Direction of the transfer. A stored file is deleted at the server afterwards, even after a failure. A fetched
    /// file must exist.
    pub direction: FtpDirection,
    /// Name of the file at the server.
    pub file: String,
    /// Bytes to store, or the maximum size of a fetched file.
    pub bytes: u64,
    /// Options of the data connection.
    pub options: TcpOptions,
    /// DSCP of both connections, below 64.
    pub dscp: u8,
    /// Time limit of the whole session.
    pub patience: Duration,
}

/// Results of a transfer.
#[derive(Clone, Debug, PartialEq)]
pub struct FtpReport {
    /// The first line of the server's greeting.
    pub greeting: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Time of the data transfer, from the server's reply that the transfer begins to its reply that the transfer is
    /// complete, s.
    pub transfer_s: f64,
    /// Time of the session, from the request of the control connection to the reply to QUIT, s.
    pub session_s: f64,
    /// TCP's counters at this end of the data connection.
    pub counts: TcpCounts,
    /// The limit at an end, if an end, and not the path, limited the transfer.
    pub limit: Option<LimitingFactor>,
    /// Reasons why the times are not those of the path. Empty if they are valid.
    pub faults: Vec<String>,
}

/// Transfers one file. A stored file, or a part of it, is always deleted at the server. If the transfer fails or
/// `cancel` is set, the file is deleted in a separate session.
///
/// Fails if a connection fails, if the server refuses, sends an invalid reply, takes too long or has a longer file than
/// allowed, or if the transfer was interrupted.
pub fn ftp(order: &FtpOrder, cancel: &AtomicBool) -> ProbeResult<FtpReport> {
    transfer(order, &|| cancel.load(Ordering::Relaxed))
}

/// Transfers one file like [`ftp`], until `has_ended` returns true.
pub fn transfer(order: &FtpOrder, has_ended: &(dyn Fn() -> bool + Sync)) -> ProbeResult<FtpReport> {
    let (begun, rest) = (monotonic_nanos(), Cell::new(Leftover::Nothing));
    let report = within(order, order.patience.into(), has_ended, |session| session.carry_out(begun, &rest));
    if let Err(failed) = &report
        && rest.get() != Leftover::Nothing
        && let Err(error) = within(order, CLEARING, &|| false, |session| session.clear())
        && rest.get() == Leftover::Something
    {
        let why = format!("{} stays at the server: {error}; before that: {failed}", order.file);
        return Err(FtpSession { order, sockets: &SessionSockets::default() }.failed("DELE", why));
    }
    report
}

/// Runs a session over an existing control connection. `dial` opens the data connection to the port in the server's
/// reply. The session cannot be interrupted, and no file is deleted if it fails.
///
/// Fails in the same cases as [`ftp`].
pub fn converse(
    order: &FtpOrder,
    control: TcpStream,
    dial: impl Fn(u16) -> Result<TcpStream, String> + Send + Sync + 'static,
) -> ProbeResult<FtpReport> {
    let session = FtpSession { order, sockets: &SessionSockets::default() };
    session.converse(control, dial, monotonic_nanos(), &Cell::new(Leftover::Nothing))
}

/// What a failed session has left on the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leftover {
    Nothing,
    /// Unknown: the session ended between the command to store a file and the server's reply.
    Perhaps,
    /// A file, or a part of it.
    Something,
}

/// Runs `go` in a session that ends after `patience`, or when `has_ended` returns true.
fn within<T>(
    order: &FtpOrder,
    patience: StdDuration,
    has_ended: &(dyn Fn() -> bool + Sync),
    go: impl FnOnce(&FtpSession<'_>) -> ProbeResult<T>,
) -> ProbeResult<T> {
    let sockets = SessionSockets::default();
    let session = FtpSession { order, sockets: &sockets };
    let (over, watch) = mpsc::channel::<()>();
    let deadline = StdInstant::now() + patience;
    let done = std::thread::scope(|scope| {
        // The shutdown of a socket ends the blocking call of the thread that waits on it.
        let sockets = &sockets;
        scope.spawn(move || {
            while watch.recv_timeout(LOOK_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                if has_ended() || StdInstant::now() >= deadline {
                    return sockets.end();
                }
            }
        });
        let done = go(&session);
        drop(over);
        done
    });
    done.map_err(|error| match sockets.has_ended() {
        true if has_ended() => ProbeError::Interrupted,
        true => session.failed("waiting", "it took too long"),
        false => error,
    })
}

/// The sockets of a session. Another thread can shut them down.
#[derive(Clone, Default)]
struct SessionSockets(Arc<Mutex<(Vec<TcpStream>, bool)>>);

impl SessionSockets {
    fn add(&self, stream: &TcpStream) -> io::Result<()> {
        let mut sockets = self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        if sockets.1 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sockets.0.push(stream.try_clone()?);
        Ok(())
    }

    fn end(&self) {
        if let Ok(mut sockets) = self.0.lock() {
            sockets.1 = true;
            for stream in &sockets.0 {
                // The shutdown of a closed socket may fail, so the error is ignored.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// `TCP_INFO` of the last added socket; fields for which the kernel gives no value are zero.
    fn last(&self) -> TcpInfo {
        let last = self.0.lock().ok().and_then(|sockets| TcpInfo::read(sockets.0.last()?).ok());
        last.unwrap_or_default()
    }

    fn has_ended(&self) -> bool {
        self.0.lock().is_ok_and(|sockets| sockets.1)
    }
}

struct FtpSession<'a> {
    order: &'a FtpOrder,
    sockets: &'a SessionSockets,
}

impl FtpSession<'_> {
    fn failed(&self, step: &'static str, why: impl std::fmt::Display) -> ProbeError {
        let line: String =
            why.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect();
        ProbeError::Ftp { target: self.order.server, step, why: line.trim_end().to_owned() }
    }

    fn at(&self, step: &'static str) -> impl Fn(FtpError) -> ProbeError {
        move |error| self.failed(step, error)
    }

    /// Opens a control connection.
    fn control(&self) -> ProbeResult<TcpStream> {
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        connect(self.order.server, &options, self.order.dscp, self.sockets)
            .map_err(|why| self.failed("connect", why))
    }

    /// Logs in over a control connection. Returns the session and the server's greeting.
    fn log_in(&self, control: TcpStream) -> ProbeResult<(FtpStream, String)> {
        let order = self.order;
        let mut session = FtpStream::connect_with_stream(control).map_err(self.at("greeting"))?;
        let greeting = session.get_welcome_msg().and_then(|text| text.lines().next()).unwrap_or_default();
        let greeting = greeting.chars().filter(|c| !c.is_control()).take(200).collect();
        session.login(&order.user, &order.password).map_err(self.at("login"))?;
        Ok((session, greeting))
    }

    /// Deletes the file.
    fn clear(&self) -> ProbeResult {
        let (mut session, _) = self.log_in(self.control()?)?;
        session.rm(&self.order.file).map_err(self.at("DELE"))
    }

    fn carry_out(&self, begun: u64, rest: &Cell<Leftover>) -> ProbeResult<FtpReport> {
        let order = self.order.clone();
        let sockets = self.sockets.clone();
        let dial = move |port| {
            // The data connection goes to the server of the order. The address in the reply is ignored, so that no
            // other host receives the data.
            let to = HostAddress::from(order.server).at(port);
            connect(to, &order.options, order.dscp, &sockets)
        };
        self.converse(self.control()?, dial, begun, rest)
    }

    /// Runs the session over a control connection. `dial` opens the connection to the server's data port.
    fn converse(
        &self,
        control: TcpStream,
        dial: impl Fn(u16) -> Result<TcpStream, String> + Send + Sync + 'static,
        begun: u64,
        rest: &Cell<Leftover>,
    ) -> ProbeResult<FtpReport> {
        let order = self.order;
        let (mut session, greeting) = self.log_in(control)?;
        session.transfer_type(FileType::Binary).map_err(self.at("type"))?;
        session.set_mode(if order.server.is_ipv6() { Mode::ExtendedPassive } else { Mode::Passive });
        session.set_passive_nat_workaround(true);
        let mut session = session.passive_stream_builder(move |to| {
            dial(to.port()).map_err(|why| FtpError::ConnectionError(io::Error::other(why)))
        });
        let (host, interruptions) = (HostCounters::read(), InterruptionCounts::read());
        let (before, since) = (Effort::of_this_thread(), monotonic_nanos());
        let (bytes, transfer_s) = match order.direction {
            FtpDirection::Store => self.store(&mut session, rest)?,
            FtpDirection::Fetch => self.fetch(&mut session)?,
        };
        let data = self.sockets.last();
        let (effort, lasted) = (Effort::of_this_thread().since(&before), monotonic_nanos() - since);
        let end = EndReport {
            host: HostCounters::read().since(&host),
            ran_ns: effort.ran.as_nanos(),
            waited_ns: effort.waited.as_nanos(),
            threads_ns: lasted,
            ..EndReport::default()
        };
        let limit = self.limit(&end, data, bytes as f64 * 8.0 / transfer_s);
        let interruptions = InterruptionCounts::read().since(&interruptions, Precedence::None, false);
        let faults = limit.iter().map(fault).chain(interruptions.fault()).collect();
        session.quit().map_err(self.at("farewell"))?;
        let session_s = (monotonic_nanos() - begun) as f64 * 1e-9;
        Ok(FtpReport { greeting, bytes, transfer_s, session_s, counts: data.counts, limit, faults })
    }

    /// The limit of a transfer at one of the ends, of which the server does not report its own. `end` is the report of
    /// this end, and `data` the last reading of the data connection.
    fn limit(&self, end: &EndReport, data: TcpInfo, bits_per_s: f64) -> Option<LimitingFactor> {
        let stores = self.order.direction == FtpDirection::Store;
        let sent = if stores { self.order.bytes } else { 0 };
        let counts =
            StreamCounts { sent, received: 0, acknowledged: None, info: Some(data), has_hole: false };
        let counts = ConnectionCounts { at_ns: end.threads_ns, ..(&counts).into() };
        let connections = ConnectionSummary::of(&[ConnectionCounts::default(), counts], 0.0);
        let untold = EndReport::default();
        let [sender, receiver] = if stores { [end, &untold] } else { [&untold, end] };
        TransferEnds {
            sends: if stores { MeasuredHost::Client } else { MeasuredHost::Server },
            sender,
            receiver,
            connections: connections.as_ref(),
            streams: 1,
            payload: Some(bits_per_s),
            delays: connections.and_then(|told| PathDelays::of(told.round_trip_s, told.least_round_trip_s)),
        }
        .limit()
    }

    /// Stores the file and deletes it. `rest` is set to what would remain on the server if the session failed now.
    fn store(&self, session: &mut FtpStream, rest: &Cell<Leftover>) -> ProbeResult<(u64, f64)> {
        let stored = session.put_with_stream(&self.order.file);
        rest.set(match &stored {
            Ok(_) => Leftover::Something,
            Err(_) if self.sockets.has_ended() => Leftover::Perhaps,
            Err(_) => Leftover::Nothing,
        });
        let mut data = stored.map_err(self.at("STOR"))?;
        let first = monotonic_nanos();
        let zeros = vec![0; BLOCK];
        let mut left = self.order.bytes;
        while left > 0 {
            let size = left.min(BLOCK as u64) as usize;
            data.write_all(&zeros[..size]).map_err(|error| self.failed("data", error))?;
            left -= size as u64;
        }
        // The end of the connection is the end of the file (RFC 959 section 3.4.1). Closing this descriptor would not
        // end the connection, because the watching thread has a copy of it.
        data.get_ref().get_ref().shutdown(Shutdown::Write).map_err(|error| self.failed("data", error))?;
        data.finish().map_err(self.at("end of data"))?;
        let took = (monotonic_nanos() - first) as f64 * 1e-9;
        session.rm(&self.order.file).map_err(self.at("DELE"))?;
        rest.set(Leftover::Nothing);
        Ok((self.order.bytes, took))
    }

    fn fetch(&self, session: &mut FtpStream) -> ProbeResult<(u64, f64)> {
        let mut data = session.retr_as_stream(&self.order.file).map_err(self.at("RETR"))?;
        let first = monotonic_nanos();
        let mut buffer = vec![0; BLOCK];
        let mut bytes = 0;
        loop {
            let count = data.read(&mut buffer).map_err(|error| self.failed("data", error))?;
            if count == 0 {
                break;
            }
            hold_window(data.get_ref().get_ref(), self.order.options.window_clamp);
            bytes += count as u64;
            if bytes > self.order.bytes {
                return Err(self.failed("data", format!("the file is longer than {} B", self.order.bytes)));
            }
        }
        data.finish().map_err(self.at("end of data"))?;
        Ok((bytes, (monotonic_nanos() - first) as f64 * 1e-9))
    }
}

/// Opens a blocking connection with these options. The socket is added to the session's sockets before it connects, so
/// that another thread can end the connection attempt too.
fn connect(
    to: SocketAddr,
    options: &TcpOptions,
    dscp: u8,
    sockets: &SessionSockets,
) -> Result<TcpStream, String> {
    let local = HostAddress::unspecified_for(to).at(0);
    let making = SocketBuilder::tcp(options, dscp, local).map_err(|error| error.to_string())?;
    let stream = TcpStream::from(making.bound().map_err(|error| error.to_string())?);
    sockets.add(&stream).map_err(|error| error.to_string())?;
    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
    rustix::net::connect(&stream, &to).map_err(|error| io::Error::from(error).to_string())?;
    Ok(stream)
}
