//! Computes the size of a socket's receive buffer for a given receive window.

use netrig_core::Size;
use netrig_host::sysctl;
use netrig_transport::tcp::Config;

/// Length of the timestamps option in a segment (RFC 7323 appendix A), and of the headers of IPv4, TCP and
/// Ethernet, bytes.
const TIMESTAMPS: u64 = 12;
const HEADERS: u64 = 20 + 20 + 14;
/// Bytes that a packet socket reserves before a frame (LL_RESERVED_SPACE, include/linux/netdevice.h), that the
/// kernel needs after the frame in the same allocation (struct skb_shared_info), and that it needs in another
/// allocation (struct sk_buff; both in include/linux/skbuff.h, on 64 bits).
const BEFORE: u64 = 32;
const BEHIND: u64 = 320;
const BESIDE: u64 = 256;
/// The kernel computes the window's share of the buffer in 256ths (TCP_RMEM_TO_WIN_SCALE, include/net/tcp.h).
const PARTS: u64 = 256;
/// The first kernel version that learns the window's share from arriving segments. Earlier versions use half of
/// the buffer (ip-sysctl, tcp_adv_win_scale).
const LEARNS_SINCE: (u32, u32) = (6, 6);

/// How a kernel computes the receive window from the size of the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceiveBuffer {
    /// The window is half of the buffer.
    Halved,
    /// The window's share of the buffer equals the share of data in the memory of a segment. The buffer also has
    /// room for one more segment.
    Learned,
}

impl ReceiveBuffer {
    /// The method of the kernel of this machine.
    pub fn of_this_kernel() -> Self {
        Self::of(&sysctl::get("kernel.osrelease").unwrap_or_default())
    }

    fn of(release: &str) -> Self {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|word| word.parse().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version >= LEARNS_SINCE { Self::Learned } else { Self::Halved }
    }

    /// The value of SO_RCVBUF (bytes) with which the kernel offers the window `config.receive_buffer`, if
    /// segments of up to `segment` arrive. The kernel doubles the value of SO_RCVBUF (socket(7)).
    pub fn that_offers(self, config: &Config, segment: Size) -> u64 {
        let window = config.receive_buffer.bytes();
        match self {
            Self::Halved => window,
            Self::Learned => {
                let options = if config.timestamps { TIMESTAMPS } else { 0 };
                let data = segment.bytes().saturating_sub(options).max(1);
                // The kernel allocates memory in powers of two.
                let frame = (BEFORE + HEADERS + options + data + BEHIND).next_power_of_two() + BESIDE;
                let share = (data * PARTS / frame).max(1);
                ((window * PARTS).div_ceil(share) + frame).div_ceil(2)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_transport::Profile;

    use super::*;

    #[test]
    fn a_kernel_says_by_its_version_what_it_does() {
        for (release, does) in [
            ("5.15.0-91-generic\n", ReceiveBuffer::Halved),
            ("6.5.13", ReceiveBuffer::Halved),
            ("6.6.0-rc1", ReceiveBuffer::Learned),
            ("6.18.44", ReceiveBuffer::Learned),
            ("10.0", ReceiveBuffer::Learned),
            ("", ReceiveBuffer::Halved),
        ] {
            assert_eq!(ReceiveBuffer::of(release), does, "{release}");
        }
    }

    /// 1448 B of data use 2048 B of memory and another 256 B, so the share of the data is 160/256.
    #[test]
    fn a_learned_share_is_that_of_the_data_in_its_memory() {
        let config = Config { receive_buffer: Size::from_bytes(64_000), ..Config::of(Profile::Linux) };
        assert_eq!(ReceiveBuffer::Halved.that_offers(&config, config.mss), 64_000);
        assert_eq!(ReceiveBuffer::Learned.that_offers(&config, config.mss), (64_000 * 256 / 160 + 2304) / 2);
        // 448 B of data use 1024 B and another 256 B, so the share of the data is 89/256.
        let short = ReceiveBuffer::Learned.that_offers(&config, Size::from_bytes(460));
        assert_eq!(short, ((64_000_u64 * 256).div_ceil(89) + 1280).div_ceil(2));
    }
}
