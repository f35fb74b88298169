//! Frames as they come to the router, and as it sends them on.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::error::{ErrorContext, TestbedError};
use crate::sys::{FilledSlot, PacketSocket, Slots};
use crate::testbed::Testbed;

/// TPACKET_V2 of Linux's `if_packet.h`. A frame can be read as soon as it is there; version 3 hands out blocks, after a
/// wait that is counted in milliseconds, and a line that is emulated would be late by as much.
const VERSION: u32 = 1;
/// ETH_P_ALL of Linux's `if_ether.h`: every protocol.
const EVERY_PROTOCOL: u16 = 3;
/// What the kernel puts before an IP packet in a slot: its header, an address, and the frame's own header behind a gap
/// (tpacket_rcv in Linux's `af_packet.c` aligns the IP packet to 16 bytes).
const BEFORE_PACKET: usize = (libc::TPACKET2_HDRLEN + 16).next_multiple_of(libc::TPACKET_ALIGNMENT);
/// Slots come in blocks of at least so many bytes, which the kernel keeps in one piece.
const BLOCK: usize = 1 << 16;
/// The longest list of frames that one system call sends.
const BATCH: usize = 64;

/// Everything that nodes send, in the order in which it comes to the router: a TPACKET_V2 receive ring over all interfaces
/// of the router's namespace, with the kernel's arrival stamps.
///
/// What finds no room is counted and never waited for: see [`ReceiveRing::counts`].
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
    /// When it came, since 1970 by the system's clock (CLOCK_REALTIME), to the nanosecond.
    pub at: Duration,
    /// Whether `at` is when the node's interface handed it over, and not when it was put into the ring soon after.
    pub stamped: bool,
    /// The number of the router's interface at which it came: [`crate::LinkEnd::index`].
    pub interface: u32,
    /// From the first byte of its Ethernet header.
    pub bytes: &'a [u8],
    /// Whether it is as a wire would have it: `bytes` is all of it, its checksum is there, and no VLAN tag was taken out
    /// of it. Always so of IP packets, as offloads are off.
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

/// What came since the ring was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingCounters {
    /// Frames that came, with those that found no room.
    pub offered: u64,
    /// Frames that found no room in the ring.
    pub dropped: u64,
}

impl ReceiveRing {
    /// Opens a ring of at least `slots` frames (1 to 65536) of the largest MTU of `testbed`.
    ///
    /// # Errors
    /// If the kernel refuses, or an option does not take.
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

    /// Reads the frames that are there, up to `most` of them, in the order in which they were put into the ring. Their
    /// slots are given back when `read` returns: what is to stay is copied, or sent before.
    ///
    /// That order is the one of [`ReceivedFrame::at`] too, but for frames that two processors handed over within microseconds.
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

    /// Waits for a frame, at most so long. Whether there is one.
    ///
    /// # Errors
    /// If the kernel does not let it be waited for.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        if self.slots.filled(self.next).is_some() {
            return Ok(true);
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        let mut sockets = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match poll(&mut sockets, Some(&timeout)) {
            // A signal: whoever waits looks at the clock anyway.
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(self.slots.filled(self.next).is_some()),
            Err(error) => Err(error.into()),
        }
    }

    /// What came until now.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&mut self) -> Result<RingCounters, TestbedError> {
        // Asking sets the kernel's own counters to zero (packet(7)).
        // `struct tpacket_stats`: frames that came, and how many of them found no room.
        let told = self.socket.get(libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let [offered, dropped] = told.context(&self.place, || "ask for the ring's counters".into())?;
        self.counts.offered += u64::from(offered);
        self.counts.dropped += u64::from(dropped);
        Ok(self.counts)
    }
}

/// For whoever waits for several things at once: readable when there is a frame.
impl AsFd for ReceiveRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn open_ring(place: &str, request: RingRequest) -> Result<(PacketSocket, Slots), TestbedError> {
    let socket = PacketSocket::open().context(place, || "open a packet socket".into())?;
    set(&socket, place, "PACKET_VERSION", libc::SOL_PACKET, libc::PACKET_VERSION, VERSION)?;
    // What the router sends itself must not come back to it.
    set(&socket, place, "PACKET_IGNORE_OUTGOING", libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    // The kernel stamps arriving packets only while somebody wants stamps.
    set(&socket, place, "SO_TIMESTAMPNS", libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let ring = socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, request);
    ring.context(place, || format!("set up a ring of {} slots of {} B", request[3], request[2]))?;
    let slots = Slots::map(&socket, request[2] as usize, request[3] as usize);
    let slots = slots.context(place, || "share the ring's memory".into())?;
    // Last: nothing comes before all is set.
    socket.bind(0, EVERY_PROTOCOL).context(place, || "listen to all interfaces".into())?;
    Ok((socket, slots))
}

/// Sets an option that is a number, and reads it back.
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

/// The way out of one of the router's interfaces, past every queue of the kernel's.
pub struct FrameSender {
    socket: PacketSocket,
}

impl FrameSender {
    /// Opens the router's interface of number `interface`, an [`crate::LinkEnd::index`].
    ///
    /// # Errors
    /// If the kernel refuses, or an option does not take.
    pub fn open(testbed: &Testbed, interface: u32) -> Result<Self, TestbedError> {
        let place = testbed.router_namespace().to_owned();
        testbed.in_router(move || {
            let socket = PacketSocket::open().context(&place, || "open a packet socket".into())?;
            set(&socket, &place, "PACKET_QDISC_BYPASS", libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
            // Without a protocol it receives nothing.
            socket.bind(interface, 0).context(&place, || format!("bind to interface {interface}"))?;
            Ok(Self { socket })
        })
    }

    /// Sends frames, each from the first byte of its Ethernet header, in their order. Returns how many the node's
    /// interface took; fewer than there are only if the next one was refused.
    ///
    /// # Errors
    /// Why the first was refused: `ENOBUFS` if the node has no room for it now.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let mut sent = 0;
        for batch in frames.chunks(BATCH) {
            match self.send_batch(batch) {
                Ok(taken) => sent += taken,
                Err(error) if sent == 0 => return Err(error),
                // Tried again, it is the first, and tells why.
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
