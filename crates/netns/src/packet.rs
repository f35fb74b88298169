//! Packet sockets: the system calls that no library makes safe, and the memory that is shared with the kernel.
#![allow(unsafe_code, reason = "socket options and shared memory of packet(7); each block says why it may")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A packet socket. It receives nothing until it is bound.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

/// Types of C that are numbers and nothing else: any bits of them mean something, and none of their bytes is padding.
///
/// # Safety
/// Whoever implements it promises that.
pub(crate) unsafe trait Plain: Copy + PartialEq {
    /// All of it zero.
    const ZERO: Self;
}

// SAFETY: a number.
unsafe impl Plain for libc::c_int {
    const ZERO: Self = 0;
}

/// `struct tpacket_stats` of Linux's `if_packet.h`: packets that met a filter's wish, and how many of them found no room.
pub(crate) type Statistics = [u32; 2];

// SAFETY: two numbers without a gap.
unsafe impl Plain for Statistics {
    const ZERO: Self = [0; 2];
}

/// `struct tpacket_req`: size and number of blocks, size and number of frames.
pub(crate) type RingRequest = [u32; 4];

// SAFETY: four numbers without a gap.
unsafe impl Plain for RingRequest {
    const ZERO: Self = [0; 4];
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn length<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

impl PacketSocket {
    /// Opens one in the namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        // SAFETY: takes and returns numbers only.
        let socket =
            checked(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the kernel has just opened it, and nobody else has the number.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(socket) }))
    }

    /// Sets an option.
    pub(crate) fn set<T: Plain>(&self, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
        let at = (&raw const value).cast();
        // SAFETY: the kernel reads the bytes of `value`, which lives until the call returns.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, at, length::<T>()) }).map(drop)
    }

    /// Reads an option.
    pub(crate) fn get<T: Plain>(&self, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
        let (mut value, mut size) = (T::ZERO, length::<T>());
        let at = (&raw mut value).cast();
        // SAFETY: the kernel writes at most `size` bytes, the size of `value`, and any bits of a `Plain` are one.
        checked(unsafe { libc::getsockopt(self.0.as_raw_fd(), level, option, at, &raw mut size) })?;
        Ok(value)
    }

    /// Binds it to an interface, or with 0 to all; with a `protocol` it receives from then on.
    pub(crate) fn bind(&self, interface: u32, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: interface as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let at = (&raw const address).cast();
        // SAFETY: the kernel reads an address of this family, of this size.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), at, length::<libc::sockaddr_ll>()) }).map(drop)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The memory of a receive ring of version 2: slots of one size, of which each is the kernel's or ours.
pub(crate) struct Slots {
    memory: NonNull<u8>,
    slot: usize,
    count: usize,
}

// SAFETY: the memory belongs to the process and not to a thread. (It is not `Sync`: one thread at a time reads it.)
unsafe impl Send for Slots {}

/// A slot that the kernel has filled and not yet got back.
pub(crate) struct Filled<'a> {
    /// `struct tpacket2_hdr`.
    pub(crate) header: libc::tpacket2_hdr,
    /// The interface at which it came.
    pub(crate) interface: u32,
    /// The frame from its first byte, as much of it as fitted.
    pub(crate) bytes: &'a [u8],
}

impl Slots {
    /// Shares `count` slots of `slot` bytes with the kernel, which the ring of `socket` was set up for.
    pub(crate) fn map(socket: &PacketSocket, slot: usize, count: usize) -> io::Result<Self> {
        let (reach, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        let socket = socket.0.as_raw_fd();
        // SAFETY: the kernel chooses where, so nothing else is there.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), slot * count, reach, how, socket, 0) };
        match NonNull::new(memory.cast::<u8>()) {
            Some(start) if memory != libc::MAP_FAILED => Ok(Self { memory: start, slot, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn start(&self, place: usize) -> *mut u8 {
        assert!(place < self.count, "slot {place} of {}", self.count);
        // SAFETY: within the `slot * count` bytes that are mapped.
        unsafe { self.memory.as_ptr().add(place * self.slot) }
    }

    /// Whose a slot is: the first word of its header.
    fn status(&self, place: usize) -> &AtomicU32 {
        // SAFETY: slots are aligned to 16 bytes and more, live as long as `self`, and this word is written by both sides,
        // by the kernel with a barrier as an atomic word wants it (Documentation/networking/packet_mmap.rst).
        unsafe { AtomicU32::from_ptr(self.start(place).cast()) }
    }

    /// What the kernel has put there, if the slot is ours.
    pub(crate) fn filled(&self, place: usize) -> Option<Filled<'_>> {
        // Acquire: the rest is read after this.
        if self.status(place).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let start = self.start(place);
        // SAFETY: as long as the slot is ours the kernel leaves it alone; behind the header, aligned to 16 bytes, it has
        // written a link-layer address. Both are numbers only.
        let (header, address) = unsafe {
            let header = start.cast::<libc::tpacket2_hdr>().read();
            let behind = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
            (header, start.add(behind).cast::<libc::sockaddr_ll>().read())
        };
        let (from, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        assert!(from + length <= self.slot, "a frame that ends behind its slot");
        // SAFETY: within the slot, as was just looked at, and left alone by the kernel until `give_back`, which takes
        // `self` mutably and so not before `bytes` is done with.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(from), length) };
        Some(Filled { header, interface: address.sll_ifindex as u32, bytes })
    }

    /// Gives a slot to the kernel.
    pub(crate) fn give_back(&mut self, place: usize) {
        // Release: what was read of it was read before this.
        self.status(place).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slot * self.count) };
    }
}
