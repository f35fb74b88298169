//! Packet sockets (packet(7)).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// A packet socket. It receives nothing until it is bound.
#[derive(Debug)]
pub(crate) struct PacketSocket(OwnedFd);

fn checked(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

impl PacketSocket {
    /// Opens a packet socket in the namespace of the calling thread.
    pub fn open() -> io::Result<Self> {
        Ok(Self(socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?))
    }

    /// Sets an option whose value consists of 32-bit numbers.
    #[expect(unsafe_code, reason = "no safe wrapper takes an option by number")]
    pub fn set<const N: usize>(&self, level: i32, option: i32, value: [u32; N]) -> io::Result<()> {
        let (at, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: the descriptor is owned, and the kernel only reads the `length` bytes of `value`, which outlives the call.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, at, length) })
    }

    /// Reads an option whose value consists of 32-bit numbers.
    #[expect(unsafe_code, reason = "no safe wrapper takes an option by number")]
    pub fn get<const N: usize>(&self, level: i32, option: i32) -> io::Result<[u32; N]> {
        let mut value = [0; N];
        let (at, mut length) = ((&raw mut value).cast(), size_of_val(&value) as libc::socklen_t);
        // SAFETY: the descriptor is owned, and the kernel writes at most `length` bytes, which are those of `value`, whose
        // numbers may have any bits.
        checked(unsafe { libc::getsockopt(self.0.as_raw_fd(), level, option, at, &raw mut length) })?;
        Ok(value)
    }

    /// Binds the socket to an interface; 0 means all interfaces. If `protocol` is not 0, the socket receives frames
    /// from now on.
    #[expect(unsafe_code, reason = "no safe wrapper has addresses of packet sockets")]
    pub fn bind(&self, interface: u32, protocol: u16) -> io::Result<()> {
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: interface as libc::c_int,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let (at, length) = ((&raw const address).cast(), size_of_val(&address) as libc::socklen_t);
        // SAFETY: the descriptor is owned, and the kernel only reads an address of this family and this length.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), at, length) })
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
