//! A file by FTP (RFC 959), passive (RFC 2428 over IPv6), with a server of anybody's.

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

use super::verdict::{TransferLimit, TransferObservation, TransferWatch};
use crate::ProbeError;
use netrig_bulk::Effort;
use netrig_host::socket::TcpOptions;
use netrig_host::socket::{Making, hold_window};
use netrig_host::{HostAddress, TcpCounts, TcpInfo, monotonic_nanos};

/// Read and written at a time.
const BLOCK: usize = 64 << 10;

/// How often it is seen whether a session is to end.
const LOOK_EVERY: StdDuration = StdDuration::from_millis(20);

/// How long it may take to delete a file that a broken session left at the server.
const CLEARING: StdDuration = StdDuration::from_secs(10);

/// A transfer that is to be made.
#[derive(Clone, Debug)]
pub struct FtpOrder {
    /// The server.
    pub server: SocketAddr,
    /// Who we are: `anonymous` where that is allowed.
    pub user: String,
    /// The password.
    pub password: String,
    /// Which way: what is stored is deleted at the server afterwards, whatever happened; what is fetched must be there.
    pub direction: FtpDirection,
    /// Name of the file at the server.
    pub file: String,
    /// Bytes to store; of a file that is fetched at most so many are taken.
    pub bytes: u64,
    /// What the connection of the data is made with.
    pub options: TcpOptions,
    /// Code point of the packets of both connections, below 64.
    pub dscp: u8,
    /// How long the whole session may take: then it is ended.
    pub patience: Duration,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FtpReport {
    /// The server's greeting, its first line.
    pub greeting: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// The transfer of the data: from the server's word that it begins until its word that it is complete, s.
    pub transfer_s: f64,
    /// The session: from the request of the control connection until the answer to the farewell, s.
    pub session_s: f64,
    /// What TCP counted at this end of the connection of the data.
    pub counts: TcpCounts,
    /// Why an end, and not the path, was the limit. None if the times can be trusted.
    pub limits: Vec<TransferLimit>,
}

impl FtpReport {
    /// Why an end, and not the path, was the limit: each a sentence.
    pub fn faults(&self) -> Vec<String> {
        self.limits.iter().map(|limit| limit.why.clone()).collect()
    }
}

/// Transfers one file. A file that was stored, or a part of it, does not stay at the server, also if something fails or
/// `cancel` is set: it is deleted then in a session of its own.
///
/// # Errors
/// If a connection fails, the server refuses, says what no server says, takes too long, or has fewer bytes than it should;
/// if it was interrupted.
pub fn ftp(order: &FtpOrder, cancel: &AtomicBool) -> Result<FtpReport, ProbeError> {
    transfer(order, &|| cancel.load(Ordering::Relaxed))
}

/// The same until `has_ended` says that it is to end.
pub fn transfer(order: &FtpOrder, has_ended: &(dyn Fn() -> bool + Sync)) -> Result<FtpReport, ProbeError> {
    let (begun, rest) = (monotonic_nanos(), Cell::new(Leftover::Nothing));
    let report = within(order, order.patience.into(), has_ended, |session| session.carry_out(begun, &rest));
    if let Err(failed) = &report
        && rest.get() != Leftover::Nothing
        && let Err(error) = within(order, CLEARING, &|| false, |session| session.clear())
        && rest.get() == Leftover::Something
    {
        let why = format!("{} stays there: {error}; before that: {failed}", order.file);
        return Err(FtpSession { order, sockets: &SessionSockets::default() }.failed("DELE", why));
    }
    report
}

/// The same session over a control connection that stands, with a connection from `dial` for the data, which is told the
/// port that the server named: what a session is beside its sockets. Nobody ends it, and nothing is cleared away after it.
///
/// # Errors
/// As those of [`ftp`].
pub fn converse(
    order: &FtpOrder,
    control: TcpStream,
    dial: impl Fn(u16) -> Result<TcpStream, String> + Send + Sync + 'static,
) -> Result<FtpReport, ProbeError> {
    let session = FtpSession { order, sockets: &SessionSockets::default() };
    session.converse(control, dial, monotonic_nanos(), &Cell::new(Leftover::Nothing))
}

/// What a session that failed left at the server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leftover {
    Nothing,
    /// It was ended between the command to store a file and the server's answer.
    Perhaps,
    /// A file, or a part of it.
    Something,
}

/// Does something in a session that is ended after so long, or when `has_ended` says so.
fn within<T>(
    order: &FtpOrder,
    patience: StdDuration,
    has_ended: &(dyn Fn() -> bool + Sync),
    go: impl FnOnce(&FtpSession<'_>) -> Result<T, ProbeError>,
) -> Result<T, ProbeError> {
    let sockets = SessionSockets::default();
    let session = FtpSession { order, sockets: &sockets };
    let (over, watch) = mpsc::channel::<()>();
    let deadline = StdInstant::now() + patience;
    let done = std::thread::scope(|scope| {
        // Whoever waits on a socket is woken by its end.
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

/// The sockets of a session, so that somebody else can end it.
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
                // What is closed already needs no end.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// What TCP says of the last that was added; what a kernel does not tell is zero.
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

    /// A control connection.
    fn control(&self) -> Result<TcpStream, ProbeError> {
        let options = TcpOptions { no_delay: true, ..TcpOptions::default() };
        connect(self.order.server, &options, self.order.dscp, self.sockets)
            .map_err(|why| self.failed("connect", why))
    }

    /// Logs in over a control connection; what the server greeted with.
    fn log_in(&self, control: TcpStream) -> Result<(FtpStream, String), ProbeError> {
        let order = self.order;
        let mut session = FtpStream::connect_with_stream(control).map_err(self.at("greeting"))?;
        let greeting = session.get_welcome_msg().and_then(|text| text.lines().next()).unwrap_or_default();
        let greeting = greeting.chars().filter(|c| !c.is_control()).take(200).collect();
        session.login(&order.user, &order.password).map_err(self.at("login"))?;
        Ok((session, greeting))
    }

    /// Deletes the file.
    fn clear(&self) -> Result<(), ProbeError> {
        let (mut session, _) = self.log_in(self.control()?)?;
        session.rm(&self.order.file).map_err(self.at("DELE"))
    }

    fn carry_out(&self, begun: u64, rest: &Cell<Leftover>) -> Result<FtpReport, ProbeError> {
        let order = self.order.clone();
        let sockets = self.sockets.clone();
        let dial = move |port| {
            // Data goes to the server that was named, whatever address it gives: nobody else asked for it.
            let to = HostAddress::from(order.server).at(port);
            connect(to, &order.options, order.dscp, &sockets)
        };
        self.converse(self.control()?, dial, begun, rest)
    }

    /// The session over a control connection that stands; `dial` is told the port of the server for data.
    fn converse(
        &self,
        control: TcpStream,
        dial: impl Fn(u16) -> Result<TcpStream, String> + Send + Sync + 'static,
        begun: u64,
        rest: &Cell<Leftover>,
    ) -> Result<FtpReport, ProbeError> {
        let order = self.order;
        let (mut session, greeting) = self.log_in(control)?;
        session.transfer_type(FileType::Binary).map_err(self.at("type"))?;
        session.set_mode(if order.server.is_ipv6() { Mode::ExtendedPassive } else { Mode::Passive });
        session.set_passive_nat_workaround(true);
        let mut session = session.passive_stream_builder(move |to| {
            dial(to.port()).map_err(|why| FtpError::ConnectionError(io::Error::other(why)))
        });
        let (watch, before) = (TransferWatch::start(), Effort::of_this_thread());
        let (bytes, transfer_s) = match order.direction {
            FtpDirection::Store => self.store(&mut session, rest)?,
            FtpDirection::Fetch => self.fetch(&mut session)?,
        };
        let data = self.sockets.last();
        let trips = [data.srtt, data.min_rtt].map(|trip| trip.map(Duration::as_secs_f64));
        let mut seen = TransferObservation {
            wanted_s: Effort::of_this_thread().since(&before).wanted_s(),
            trips,
            ..TransferObservation::default()
        };
        seen.add(&data);
        let limits = watch.limits(1, &seen);
        session.quit().map_err(self.at("farewell"))?;
        let session_s = (monotonic_nanos() - begun) as f64 * 1e-9;
        Ok(FtpReport { greeting, bytes, transfer_s, session_s, counts: data.counts, limits })
    }

    /// Puts the file there and deletes it; `rest` tells what would stay there now.
    fn store(&self, session: &mut FtpStream, rest: &Cell<Leftover>) -> Result<(u64, f64), ProbeError> {
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
        // The end of the file (RFC 959 section 3.4.1). Closing alone would not tell: whoever ends the session holds it too.
        data.get_ref().get_ref().shutdown(Shutdown::Write).map_err(|error| self.failed("data", error))?;
        data.finish().map_err(self.at("end of data"))?;
        let took = (monotonic_nanos() - first) as f64 * 1e-9;
        session.rm(&self.order.file).map_err(self.at("DELE"))?;
        rest.set(Leftover::Nothing);
        Ok((self.order.bytes, took))
    }

    fn fetch(&self, session: &mut FtpStream) -> Result<(u64, f64), ProbeError> {
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

/// A connection that blocks, with its options. It is among the sockets of the session before it stands, so that waiting for
/// it ends too.
fn connect(
    to: SocketAddr,
    options: &TcpOptions,
    dscp: u8,
    sockets: &SessionSockets,
) -> Result<TcpStream, String> {
    let local = HostAddress::unspecified_for(to).at(0);
    let making = Making::tcp(options, dscp, local).map_err(|error| error.to_string())?;
    let stream = TcpStream::from(making.bound().map_err(|error| error.to_string())?);
    sockets.add(&stream).map_err(|error| error.to_string())?;
    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
    rustix::net::connect(&stream, &to).map_err(|error| io::Error::from(error).to_string())?;
    Ok(stream)
}
