//! Receives and sends frames at the router's interfaces.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::error::{ErrorContext, TestbedError};
use crate::sys::{FilledSlot, PacketSocket, Slots};
use crate::testbed::Testbed;

/// TPACKET_V2 of Linux's `if_packet.h`. With version 2, a frame can be read as soon as it arrives. Version 3
/// collects frames in blocks for some milliseconds, which would delay each emulated link by that time.
const VERSION: u32 = 1;
/// ETH_P_ALL of Linux's `if_ether.h`: every protocol.
const EVERY_PROTOCOL: u16 = 3;
/// Length of the data that the kernel puts before an IP packet in a slot, bytes: the slot header, an address, a
/// gap, and the frame's link-layer header (tpacket_rcv in Linux's `af_packet.c` aligns the IP packet to 16
/// bytes).
const BEFORE_PACKET: usize = (libc::TPACKET2_HDRLEN + 16).next_multiple_of(libc::TPACKET_ALIGNMENT);
/// The minimum size of a block of slots, bytes. The memory of a block is contiguous.
const BLOCK: usize = 1 << 16;
/// Maximum number of frames per system call.
const BATCH: usize = 64;

/// A TPACKET_V2 receive ring over all interfaces of the router's namespace. It receives all frames that nodes
/// send, in the order of arrival at the router, with the kernel's time stamps.
///
/// If the ring is full, the kernel drops and counts the frame: see [`ReceiveRing::counts`].
pub struct ReceiveRing {
    slots: Slots,
    socket: PacketSocket,
    place: String,
    next: usize,
    counts: RingCounters,
}

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFrame<'a> {
    /// Arrival time since 1970 (CLOCK_REALTIME), with a resolution of 1 ns.
    pub at: Duration,
    /// Whether `at` is the time at which the node's interface passed the frame on. If not, it is the time,
    /// shortly afterwards, at which the frame was put into the ring.
    pub stamped: bool,
    /// The index of the router's interface at which the frame arrived: [`crate::LinkEnd::index`].
    pub interface: u32,
    /// The frame, from the first byte of its Ethernet header.
    pub bytes: &'a [u8],
    /// Whether the frame is as on a wire: `bytes` is complete, the checksum is present, and the kernel has not
    /// removed a VLAN tag. Always true for IP packets, because offloads are off.
    pub whole: bool,
}

impl<'a> ReceivedFrame<'a> {
    fn new(filled: FilledSlot<'a>) -> Self {
        let header = filled.header;
        let altered = libc::TP_STATUS_CSUMNOTREADY | libc::TP_STATUS_VLAN_VALID;
        Self {
            at: Duration::new(header.tp_sec.into(), header.tp_nsec),
            stamped: header.tp_status & libc::TP_STATUS_TS_SOFTWARE != 0,
            interface: filled.interface,
            bytes: filled.bytes,
            whole: header.tp_status & altered == 0 && header.tp_len == header.tp_snaplen,
        }
    }
}

/// `struct tpacket_req` of Linux's `if_packet.h`: size and number of blocks, size and number of frames.
type RingRequest = [u32; 4];

/// Numbers of frames since the ring was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Frames that arrived, including dropped frames.
    pub offered: u64,
    /// Frames that were dropped because the ring was full.
    pub dropped: u64,
}

impl ReceiveRing {
    /// Opens a ring of at least `slots` slots (1 to 65536) for the largest MTU of `testbed`.
    ///
    /// # Errors
    /// If the kernel refuses, or an option does not take effect.
    pub fn open(testbed: &Testbed, slots: usize) -> Result<Self, TestbedError> {
        let mtu = testbed.wiring().links.iter().map(|wire| wire.mtu).max().unwrap_or_default();
        let slot = (BEFORE_PACKET + mtu as usize).next_power_of_two();
        let block = slot.max(BLOCK);
        let blocks = (slots.clamp(1, 1 << 16) * slot).div_ceil(block);
        let request = [block, blocks, slot, blocks * block / slot].map(|number| number as u32);
        let place = testbed.router_namespace().to_owned();
        let opened = place.clone();
        let (socket, slots) = testbed.in_router(move || open_ring(&opened, request))?;
        Ok(Self { slots, socket, place, next: 0, counts: RingCounters::default() })
    }

    /// Passes up to `most` frames to `read`, in the order in which they were put into the ring. The slots of the
    /// frames are returned to the kernel after `read` returns, so `read` must copy or send the frames.
    ///
    /// The order is also that of [`ReceivedFrame::at`], except for frames that two processors put into the ring
    /// within microseconds.
    pub fn read<T>(&mut self, most: usize, read: impl FnOnce(&[ReceivedFrame<'_>]) -> T) -> T {
        let count = self.slots.count();
        let places = (self.next..count).chain(0..self.next).take(most);
        let frames: Vec<_> =
            places.map_while(|place| self.slots.filled(place).map(ReceivedFrame::new)).collect();
        let (answer, done) = (read(&frames), frames.len());
        for _ in 0..done {
            self.slots.give_back(self.next);
            self.next = (self.next + 1) % count;
        }
        answer
    }

    /// Waits at most `timeout` for a frame. Returns whether there is one.
    ///
    /// # Errors
    /// If the kernel refuses to wait.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        if self.slots.filled(self.next).is_some() {
            return Ok(true);
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut sockets = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match poll(&mut sockets, Some(&timeout)) {
            // After a signal, the wait may end early, because callers check the clock anyway.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.slots.filled(self.next).is_some()),
            Err(error) => Err(error.into()),
        }
    }

    /// The counters since the ring was opened.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn counts(&mut self) -> Result<RingCounters, TestbedError> {
        // Reading resets the kernel's counters (packet(7)). `struct tpacket_stats` contains the number of frames
        // that arrived, and the number of dropped frames.
        let statistics = self.socket.get(libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let [offered, dropped] = statistics.context(&self.place, || "read the ring's counters".into())?;
        self.counts.offered += u64::from(offered);
        self.counts.dropped += u64::from(dropped);
        Ok(self.counts)
    }
}

/// The descriptor is readable when there is a frame, for callers that poll several descriptors.
impl AsFd for ReceiveRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open_ring(place: &str, request: RingRequest) -> Result<(PacketSocket, Slots), TestbedError> {
    let socket = PacketSocket::open().context(place, || "open a packet socket".into())?;
    set(&socket, place, "PACKET_VERSION", libc::SOL_PACKET, libc::PACKET_VERSION, VERSION)?;
    // The router must not receive its own frames.
    set(&socket, place, "PACKET_IGNORE_OUTGOING", libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    // The kernel adds time stamps to arriving packets only if a socket requests them.
    set(&socket, place, "SO_TIMESTAMPNS", libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let ring = socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request);
    ring.context(place, || format!("set up a ring of {} slots of {} B", request[3], request[2]))?;
    let slots = Slots::map(&socket, request[2] as usize, request[3] as usize);
    let slots = slots.context(place, || "map the ring's memory".into())?;
    // The socket is bound last, so that no frame arrives before all options are set.
    socket.bind(0, EVERY_PROTOCOL).context(place, || "listen to all interfaces".into())?;
    Ok((socket, slots))
}

/// Sets a numeric option and reads it back.
fn set(
    socket: &PacketSocket,
    place: &str,
    name: &str,
    level: libc::c_int,
    option: libc::c_int,
    value: u32,
) -> Result<(), TestbedError> {
    socket.set(level, option, [value]).context(place, || format!("set {name}"))?;
    let [found] = socket.get(level, option).context(place, || format!("read {name}"))?;
    if found == value {
        return Ok(());
    }
    Err(TestbedError::NotTaken {
        setting: name.into(),
        place: place.into(),
        asked: value.to_string(),
        found: found.to_string(),
    })
}

/// Sends frames through one of the router's interfaces, bypassing all queues of the kernel.
pub struct FrameSender {
    socket: PacketSocket,
}

impl FrameSender {
    /// Opens a sender for the router's interface with the index `interface` (see [`crate::LinkEnd::index`]).
    ///
    /// # Errors
    /// If the kernel refuses, or an option does not take effect.
    pub fn open(testbed: &Testbed, interface: u32) -> Result<Self, TestbedError> {
        let place = testbed.router_namespace().to_owned();
        testbed.in_router(move || {
            let socket = PacketSocket::open().context(&place, || "open a packet socket".into())?;
            set(&socket, &place, "PACKET_QDISC_BYPASS", libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
            // If a socket is bound without a protocol, it receives no frames.
            socket.bind(interface, 0).context(&place, || format!("bind to interface {interface}"))?;
            Ok(Self { socket })
        })
    }

    /// Sends frames in order, each from the first byte of its Ethernet header. Returns the number of frames that
    /// the node's interface accepted. If it is smaller than the number of frames, the next frame was refused.
    ///
    /// # Errors
    /// If the first frame was refused: `ENOBUFS` if the node's receive queue is full.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let mut sent = 0;
        for batch in frames.chunks(BATCH) {
            match self.send_batch(batch) {
                Ok(taken) => sent += taken,
                Err(error) if sent == 0 => return Err(error),
                // The next call starts with the refused frame and returns the error.
                Err(_) => break,
            }
            if sent % BATCH != 0 {
                break;
            }
        }
        Ok(sent)
    }

    fn send_batch(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let slices: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
        let mut nothing: Vec<_> = frames.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let messages = slices.iter().zip(&mut nothing).map(|(slice, nothing)| MMsgHdr::new(slice, nothing));
        let mut messages: Vec<_> = messages.collect();
        Ok(sendmmsg(&self.socket, &mut messages, SendFlags::DONTWAIT)?)
    }
}
