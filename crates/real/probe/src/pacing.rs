//! Sends packets by a schedule and receives packets meanwhile. Every scheduled probe uses these loops.

use std::os::fd::AsFd;

use netrig_core::{Duration, Instant};

use super::error::{ProbeError, ProbeResult};
use super::socket::ProbeSocket;
use netrig_host::{Clock, Pacer, SPIN, Watch};
use netrig_host::{RequestedGaps, SourceMeter};

/// Time between the creation of a schedule and its start. It makes the first packet as punctual as the others.
const HEAD_START: Duration = Duration::from_millis(20);

/// Maximum number of packets that a late sender sends before it receives again.
const BURST: u32 = 64;

/// A measurement that receives packets from a socket.
pub(super) trait PacketReceiver {
    fn socket(&self) -> &ProbeSocket;

    /// Receives some of the pending packets. Returns whether there may be more.
    fn take(&mut self) -> ProbeResult<bool>;
}

/// A measurement that also sends packets.
pub(super) trait PacketSender: PacketReceiver {
    /// Sends the next packet. `clock` reads the time since the start of the schedule.
    fn send(&mut self, clock: &Clock) -> ProbeResult;
}

/// Creates a pacer that watches a socket for incoming packets, under number 0.
pub(super) fn watching(socket: impl AsFd, clock: Clock, tail: Duration) -> ProbeResult<Pacer> {
    let pacer = Pacer::new(clock, tail).map_err(ProbeError::kernel("epoll_create"))?;
    pacer.watch(socket, 0, Watch::Reading).map_err(ProbeError::kernel("epoll_ctl"))?;
    Ok(pacer)
}

/// Sends a packet at each time of a schedule, or as soon after that time as possible, and receives packets meanwhile.
/// Ends after the last packet, or when `stop` returns true. Returns the clock of the schedule and a meter of the
/// punctuality.
pub(super) fn keep(
    speaker: &mut impl PacketSender,
    schedule: impl IntoIterator<Item = Instant>,
    asked: RequestedGaps,
    stop: impl Fn() -> bool,
) -> ProbeResult<(Clock, SourceMeter)> {
    let clock = Clock::starting_in(HEAD_START);
    let mut pacer = watching(speaker.socket().fd(), clock, SPIN)?;
    let mut meter = SourceMeter::new(asked);
    let (mut more, mut without_a_look) = (false, 0);
    for due in schedule {
        while !clock.left_until(due).is_zero() && !stop() {
            if more || !pacer.wait(due).map_err(ProbeError::kernel("ppoll"))?.is_empty() {
                more = speaker.take()?;
            }
            without_a_look = 0;
        }
        if stop() {
            break;
        }
        if without_a_look == BURST {
            more = speaker.take()?;
            without_a_look = 0;
        }
        speaker.send(&clock)?;
        meter.sent(due, clock.now());
        without_a_look += 1;
    }
    Ok((clock, meter))
}

/// Receives packets until the time that `end` returns. `end` is called before each wait with the time since the start.
/// Then receives the packets that had arrived by that time. The loop ends even if more packets keep arriving.
pub(super) fn linger<L: PacketReceiver>(
    listener: &mut L,
    tail: Duration,
    mut end: impl FnMut(&L, Instant) -> Instant,
) -> ProbeResult {
    let clock = Clock::starting_in(Duration::ZERO);
    let mut pacer = watching(listener.socket().fd(), clock, tail)?;
    let mut more = false;
    loop {
        let until = end(listener, clock.now());
        if clock.left_until(until).is_zero() {
            break;
        }
        if !more {
            pacer.wait(until).map_err(ProbeError::kernel("ppoll"))?;
        }
        more = listener.take()?;
    }
    for _ in 0..listener.socket().full_buffer() {
        if !listener.take()? {
            break;
        }
    }
    Ok(())
}
