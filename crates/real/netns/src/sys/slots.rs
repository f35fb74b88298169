//! The memory of a receive ring (Documentation/networking/packet_mmap.rst), which the kernel and this process share.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::PacketSocket;

/// The memory of a receive ring of version 2. It consists of slots of the same size. At any time, each slot is owned by
/// the kernel or by this process.
pub(crate) struct Slots {
    memory: NonNull<u8>,
    slot: usize,
    count: usize,
}

// SAFETY: the memory belongs to the process and not to a thread. (It is not `Sync`: one thread at a time reads it.)
#[expect(unsafe_code, reason = "a pointer to shared memory is no thread's")]
unsafe impl Send for Slots {}

/// A slot that the kernel has filled and that has not yet been returned.
pub(crate) struct FilledSlot<'a> {
    /// The header of the slot (`struct tpacket2_hdr`).
    pub header: libc::tpacket2_hdr,
    /// The index of the interface at which the frame arrived.
    pub interface: u32,
    /// The frame from its first byte, truncated if it is longer than the slot.
    pub bytes: &'a [u8],
}

impl Slots {
    /// Maps the ring of `socket`, which was set up with `count` slots of `slot` bytes.
    ///
    /// # Errors
    /// If the ring has another size.
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

    pub fn count(&self) -> usize {
        self.count
    }

    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    fn start(&self, place: usize) -> *mut u8 {
        assert!(place < self.count, "slot {place} of {}", self.count);
        // SAFETY: within the `slot * count` bytes that are mapped.
        unsafe { self.memory.as_ptr().add(place * self.slot) }
    }

    /// The status word of a slot, which shows its owner. It is the first word of the slot's header.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    fn status(&self, place: usize) -> &AtomicU32 {
        // SAFETY: slots are aligned to at least 16 bytes and live as long as `self`. Both sides write this
        // word, and the kernel uses the barrier that an atomic word needs
        // (Documentation/networking/packet_mmap.rst).
        unsafe { AtomicU32::from_ptr(self.start(place).cast()) }
    }

    /// The contents of a slot, if this process owns it.
    #[expect(unsafe_code, reason = "memory that is shared with the kernel")]
    pub fn filled(&self, place: usize) -> Option<FilledSlot<'_>> {
        // Acquire ordering: the rest of the slot is read after the status.
        if self.status(place).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let start = self.start(place);
        // SAFETY: the kernel does not write to a slot that this process owns. After the header, aligned to 16
        // bytes, the kernel has written a link-layer address. Both consist only of numbers.
        let (header, address) = unsafe {
            let header = start.cast::<libc::tpacket2_hdr>().read();
            let behind = size_of::<libc::tpacket2_hdr>().next_multiple_of(libc::TPACKET_ALIGNMENT);
            (header, start.add(behind).cast::<libc::sockaddr_ll>().read())
        };
        let (from, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        assert!(from + length <= self.slot, "a frame that ends behind its slot");
        // SAFETY: the range is within the slot, as checked above. The kernel does not write to it before
        // `give_back`, which takes `self` mutably and can therefore be called only after `bytes` is dropped.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(from), length) };
        Some(FilledSlot { header, interface: address.sll_ifindex as u32, bytes })
    }

    /// Returns a slot to the kernel.
    pub fn give_back(&mut self, place: usize) {
        // Release ordering: the slot has been read before the status is written.
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
