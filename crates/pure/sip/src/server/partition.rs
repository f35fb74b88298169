//! A partition of a server's state.

use netrig_core::{Seeds, Stream};

use crate::digits::hex;
use crate::header::MAGIC_COOKIE;

/// One of several servers that share the work of one server. Each handles the messages of its partition of the state
/// ([`Partitioning`](crate::partitioning::Partitioning)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Index of the partition, below `count`.
    pub index: u32,
    /// Number of partitions, at least 1.
    pub count: u32,
}

impl Default for Partition {
    /// The whole server.
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

impl Partition {
    /// This partition's random stream of a name. The first partition has the stream of an unpartitioned server.
    pub fn stream(self, seeds: &Seeds, name: &str) -> Stream {
        match self.index {
            0 => seeds.stream(name),
            index => seeds.stream(&format!("{name}/{index}")),
        }
    }

    /// This partition's share of a limit, rounded up.
    pub const fn share(self, most: usize) -> usize {
        most.div_ceil(self.count as usize)
    }

    /// The branch of a request that a proxy of this partition sends, which names the partition. `drawn` is a unique random
    /// number, `way` a suffix.
    pub fn branch(self, drawn: u64, way: &str) -> String {
        let count = u64::from(self.count);
        // Without partitions, the branch is the drawn number unchanged.
        let tagged =
            if count == 1 { drawn } else { drawn % (u64::MAX / count) * count + u64::from(self.index) };
        format!("{MAGIC_COOKIE}{tagged:016x}.{way}")
    }

    /// The index, below `count`, of the partition that made a branch; `None` for a branch of another element.
    pub fn from_branch(branch: &[u8], count: u32) -> Option<u32> {
        let number = hex(branch.strip_prefix(MAGIC_COOKIE.as_bytes())?.get(..16)?)?;
        // The result is below `count`.
        Some((number % u64::from(count)) as u32)
    }

    /// A serial number that no other partition has.
    pub const fn serial(self, number: u64) -> u64 {
        number * self.count as u64 + self.index as u64
    }
}
