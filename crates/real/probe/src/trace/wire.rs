//! A trace over a socket of this host.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use netrig_core::{Duration, Instant};

use super::super::error::ProbeError;
use super::super::flow::{Event, FlowSocket, Given};
use super::super::pacing::watching;
use super::course::{Course, Next, Probe};
use netrig_host::{Clock, realtime_nanos};

/// What a trace found out about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its flow's source.
    pub source: SocketAddr,
    /// Why this host was the limit.
    pub faults: Vec<String>,
    /// Somebody ended it before its time.
    pub interrupted: bool,
}

/// Sends what a course wants sent, and tells it what comes, until it is over.
pub fn carry_out(
    mut socket: FlowSocket,
    course: &mut Course,
    cancel: &AtomicBool,
) -> Result<Account, ProbeError> {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut pacer = watching(socket.fd(), clock, Duration::ZERO)?;
    let mut interrupted = false;
    loop {
        if cancel.load(Ordering::Relaxed) && !interrupted {
            interrupted = true;
            course.stop();
        }
        socket.take(|event| hear(course, event, clock.now()))?;
        match course.next(clock.now(), realtime_nanos()) {
            Next::Send(probe) => send(&mut socket, course, probe, clock.now())?,
            // The pacer looks up every 50 ms.
            Next::Wait(until) if !interrupted => {
                pacer.wait(until).map_err(ProbeError::kernel("ppoll"))?;
            }
            Next::Wait(_) | Next::Over => break,
        }
    }
    Ok(Account { source: socket.flow().source, faults: socket.faults()?, interrupted })
}

fn hear(course: &mut Course, event: Event, now: Instant) {
    match event {
        Event::Left(number, at) => course.left(number, at),
        Event::Heard(number, heard) => {
            // Copies are no news.
            course.heard(number, heard);
        }
        Event::Unnamed(heard) => course.heard_unnamed(now, heard),
    }
}

fn send(socket: &mut FlowSocket, course: &mut Course, probe: Probe, now: Instant) -> Result<(), ProbeError> {
    socket.set_ttl(probe.ttl)?;
    match socket.send(probe.number, probe.length, |event| hear(course, event, now))? {
        Given::Sent => Ok(()),
        Given::TooLong(mtu) if course.sent()[probe.number as usize].for_speed => {
            course.is_too_long(probe.number, mtu);
            Ok(())
        }
        Given::TooLong(mtu) => Err(ProbeError::Request(format!(
            "packets of {} B: the interface carries {mtu} B, and they are not cut",
            probe.length
        ))),
    }
}
