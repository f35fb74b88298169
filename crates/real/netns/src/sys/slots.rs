//! The memory of a receive ring (Documentation/networking/packet_mmap.rst), which the kernel and this process share.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PacketSocket;

/// The memory of a receive ring of version 2: slots of one size, of which each is the kernel's or ours.
pub(crate) struct Slots {
    memory: NonNull<u8>,
    slot: usize,
    count: usize,
}

// SAFETY: the memory belongs to the process and not to a thread. (It is not `Sync`: one thread at a time reads it.)
#[expect(unsafe_code, reason = "a pointer to shared memory is no thread's")]
unsafe impl Send for Slots {}

/// A slot that the kernel has filled and not yet got back.
pub(crate) struct FilledSlot<'a> {
    /// `struct tpacket2_hdr`.
    pub header: libc::tpacket2_hdr,
    /// The interface at which it came.
    pub interface: u32,
    /// The frame from its first byte, as much of it as fitted.
    pub bytes: &'a [u8],
}

impl Slots {
    /// Shares `count` slots of `slot` bytes with the kernel, which the ring of `socket` was set up for.
    ///
    /// # Errors
    /// If the ring is another one.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    pub fn map(socket: &PacketSocket, slot: usize, count: usize) -> io::Result<Self> {
        let aligned = slot.is_multiple_of(libc::TPACKET_ALIGNMENT);
        assert!(aligned && slot >= libc::TPACKET2_HDRLEN, "no header fits a slot of {slot} B");
        let (reach, how) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        let socket = socket.as_fd().as_raw_fd();
        // SAFETY: the kernel chooses where, so nothing else is there; it refuses a length that is not the ring's.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), slot * count, reach, how, socket, 0) };
        match NonNull::new(memory.cast::<u8>()) {
            Some(start) if memory != libc::MAP_FAILED => Ok(Self { memory: start, slot, count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    fn start(&self, place: usize) -> *mut u8 {
        assert!(place < self.count, "slot {place} of {}", self.count);
        // SAFETY: within the `slot * count` bytes that are mapped.
        unsafe { self.memory.as_ptr().add(place * self.slot) }
    }

    /// Whose a slot is: the first word of its header.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    fn status(&self, place: usize) -> &AtomicU32 {
        // SAFETY: slots are aligned to 16 bytes and more, live as long as `self`, and this word is written by both sides,
        // by the kernel with a barrier as an atomic word wants it (Documentation/networking/packet_mmap.rst).
        unsafe { AtomicU32::from_ptr(self.start(place).cast()) }
    }

    /// What the kernel has put there, if the slot is ours.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    pub fn filled(&self, place: usize) -> Option<FilledSlot<'_>> {
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
        Some(FilledSlot { header, interface: address.sll_ifindex as u32, bytes })
    }

    /// Gives a slot to the kernel.
    pub fn give_back(&mut self, place: usize) {
        // Release: what was read of it was read before this.
        self.status(place).store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

impl Drop for Slots {
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing borrows from it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.slot * self.count) };
    }
}
