//! Hand-over of messages between the threads of a partitioned server.
//!
//! Each thread has a server with one partition of the state ([`Partitioning`]), and its own sockets at addresses that
//! all threads share. A thread hands a received message that belongs to another partition to the thread of that
//! partition. It hands a message to be sent over a connection to the thread that owns the connection. All items that a
//! thread hands to another in one turn of its loop form one entry of a channel, so that there is no lock per message.
//! Threads never wait for each other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use netrig_core::PackedBytes;
use netrig_sip::partitioning::Partitioning;
use netrig_sip::server::Source;
use netrig_sip::{Host, Status};
use rustix::event::{EventfdFlags, eventfd};

/// Maximum number of bytes in the queue to one thread, including their entries.
const MOST_WAITING: usize = 16 << 20;

/// An item that one thread hands to another. Some kinds of items have a message.
#[derive(Clone, Debug)]
pub(super) enum HandoverItem {
    /// A datagram, received at the socket of this index.
    Datagram { from: Source, place: usize },
    /// A message, received over a connection of the thread that hands it over.
    Streamed { from: Source },
    /// A message to be sent over a connection of the receiving thread.
    Outgoing { to: Source, host: Host, status: Option<Status> },
    /// A message that could not be sent.
    Unsent,
    /// The peer of a connection is validated. The item has no message.
    Proof { of: Source },
    /// A message of a connection could not be parsed. The item has no message.
    Unreadable { of: Source },
    /// A connection was accepted or opened, or has ended. The item has no message.
    Connection { with: Source, is_open: bool },
    /// A peer uses the UDP socket of this index, which is not the first suitable one. The item has no message.
    Stranger { from: SocketAddr, place: usize },
    /// A target that was added to the bindings of the partition, or removed from them. The bytes are the target instead
    /// of a message.
    Place { is_added: bool },
}

impl HandoverItem {
    /// Whether the item is dropped if the queue is full. The number of all other items is limited at their sources.
    const fn is_bounded(&self) -> bool {
        matches!(self, Self::Datagram { .. } | Self::Outgoing { .. })
    }
}

/// All items that one thread hands to another in one turn of its loop.
#[derive(Debug, Default)]
pub(super) struct HandoverBatch {
    /// The partition of the sending thread.
    pub by: u32,
    /// The items, each with the bytes of its message.
    pub items: PackedBytes<HandoverItem>,
}

/// The queue to the thread of a partition.
struct PartitionQueue {
    sender: Sender<HandoverBatch>,
    wakeup: Arc<OwnedFd>,
    /// Bytes in the channel.
    waiting: Arc<AtomicUsize>,
    next: HandoverBatch,
}

impl PartitionQueue {
    fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) + self.next.items.size() > MOST_WAITING
    }
}

/// One thread's end of the channels between all threads of a server.
pub(super) struct Handover {
    index: u32,
    partitioning: Partitioning,
    input: Receiver<HandoverBatch>,
    wakeup: Arc<OwnedFd>,
    /// Bytes in `input`.
    waiting: Arc<AtomicUsize>,
    /// The queues by the index of the partition, including this thread's own partition.
    queues: Vec<PartitionQueue>,
    /// The partitions of other threads, by the peers whose connections these threads own.
    connection_owners: HashMap<Source, u32>,
    /// Whether `input` may have an entry.
    pub has_input: bool,
}

impl Handover {
    /// The ends of all threads, by the index of their partition.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn all(partitioning: &Partitioning) -> std::io::Result<Vec<Self>> {
        let channels = (0..partitioning.count()).map(|_| {
            let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
            let (sender, input) = channel();
            Ok((sender, input, wakeup, Arc::new(AtomicUsize::new(0))))
        });
        let channels = channels.collect::<std::io::Result<Vec<_>>>()?;
        let queues = |by| {
            let queue = |(sender, _, wakeup, waiting): &(Sender<_>, _, Arc<_>, Arc<_>)| PartitionQueue {
                sender: sender.clone(),
                wakeup: Arc::clone(wakeup),
                waiting: Arc::clone(waiting),
                next: HandoverBatch { by, ..HandoverBatch::default() },
            };
            channels.iter().map(queue).collect()
        };
        let all: Vec<Vec<PartitionQueue>> = (0..partitioning.count()).map(queues).collect();
        let end = |((index, queues), (_, input, wakeup, waiting))| Self {
            index,
            partitioning: partitioning.clone(),
            input,
            wakeup,
            waiting,
            queues,
            connection_owners: HashMap::new(),
            has_input: true,
        };
        Ok((0..).zip(all).zip(channels).map(end).collect())
    }

    /// The index of this thread's partition.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// A descriptor that is readable after another thread has handed over a batch.
    pub fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// The partition of a message; `None` if it is this thread's or unknown.
    pub fn owner_of(&self, message: &[u8]) -> Option<u32> {
        self.partitioning.partition_of(message).filter(|index| *index != self.index)
    }

    /// Queues an item for the next [`Handover::flush`]. Returns whether there is room for it.
    pub fn queue(&mut self, to: u32, item: HandoverItem, message: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(to as usize) else { return false };
        if item.is_bounded() && queue.is_full() {
            return false;
        }
        queue.next.items.push(item, message);
        true
    }

    /// Queues an unbounded item for all other threads.
    pub fn queue_to_all(&mut self, item: &HandoverItem, message: &[u8]) {
        let own = self.index;
        for to in (0..self.partitioning.count()).filter(|to| *to != own) {
            self.queue(to, item.clone(), message);
        }
    }

    /// Sends the queued items to the other threads.
    pub fn flush(&mut self) {
        for queue in self.queues.iter_mut().filter(|queue| !queue.next.items.is_empty()) {
            let empty = HandoverBatch { by: self.index, ..HandoverBatch::default() };
            let batch = std::mem::replace(&mut queue.next, empty);
            queue.waiting.fetch_add(batch.items.size(), Ordering::Relaxed);
            // Sending fails if the thread has ended. The write fails if the counter is full, and then the thread is
            // awake.
            let _ = queue.sender.send(batch);
            let _ = rustix::io::write(&queue.wakeup, &1_u64.to_ne_bytes());
        }
    }

    /// Whether the queue to another thread is so long that connections must not be read.
    pub fn is_congested(&self) -> bool {
        self.queues.iter().any(PartitionQueue::is_full)
    }

    /// The next batch of another thread.
    pub fn receive(&mut self) -> Option<HandoverBatch> {
        let batch = self.input.try_recv().ok();
        self.has_input = batch.is_some();
        if let Some(batch) = &batch {
            self.waiting.fetch_sub(batch.items.size(), Ordering::Relaxed);
        }
        batch
    }

    /// Records that the thread of partition `owner` owns the connection with a peer, or that this connection has ended.
    pub fn record_connection(&mut self, with: Source, owner: u32, is_open: bool) {
        if is_open {
            self.connection_owners.insert(with, owner);
        } else if self.connection_owner(with) == Some(owner) {
            self.connection_owners.remove(&with);
        }
    }

    /// The partition of the thread that owns the connection with a peer; `None` if it is this thread or there is no
    /// connection.
    pub fn connection_owner(&self, peer: Source) -> Option<u32> {
        self.connection_owners.get(&peer).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;

    use netrig_core::Seeds;
    use netrig_sip::header::Transport;
    use netrig_sip::server::Role;

    use super::*;

    fn two() -> [Handover; 2] {
        let partitioning = Partitioning::new(&Role::Registrar, NonZeroU8::new(2).unwrap(), &Seeds::new(1));
        Handover::all(&partitioning).unwrap().try_into().ok().unwrap()
    }

    fn peer() -> Source {
        Source { transport: Transport::Tcp, address: "192.0.2.1:5060".parse().unwrap() }
    }

    #[test]
    fn a_message_is_handed_to_the_thread_that_owns_its_user() {
        let [mut first, mut second] = two();
        let request = |user: u32| format!("OPTIONS sip:u{user}@a SIP/2.0\r\n\r\n").into_bytes();
        let user = (0..).find(|user| first.owner_of(&request(*user)).is_some()).unwrap();
        assert_eq!((first.owner_of(&request(user)), second.owner_of(&request(user))), (Some(1), None));
        assert!(first.queue(1, HandoverItem::Streamed { from: peer() }, &request(user)));
        assert!(first.queue(1, HandoverItem::Proof { of: peer() }, &[]));
        assert!(second.receive().is_none(), "it is handed over with the turn");
        first.flush();
        let mut counter = [0; 8];
        assert_eq!(rustix::io::read(second.wakeup(), &mut counter), Ok(8));
        let batch = second.receive().unwrap();
        let items: Vec<_> = batch.items.iter().collect();
        assert!(matches!(items[0], (HandoverItem::Streamed { .. }, bytes) if bytes == request(user)));
        assert!(matches!(items[1], (HandoverItem::Proof { .. }, b"")) && batch.by == 0);
        assert!(second.receive().is_none() && !second.has_input);
    }

    /// The queue of a stalled thread is bounded: datagrams and messages for its connections are refused, and other
    /// threads stop reading from connections.
    #[test]
    fn a_slow_thread_bounds_what_waits_for_it() {
        let [mut first, mut second] = two();
        let message = [0; 1000];
        let mut taken = 0;
        while first.queue(1, HandoverItem::Datagram { from: peer(), place: 0 }, &message) {
            taken += 1;
            first.flush();
        }
        assert!(taken * message.len() <= MOST_WAITING && taken > 10_000, "{taken}");
        let outgoing = || HandoverItem::Outgoing { to: peer(), host: Host::Name("a".into()), status: None };
        assert!(first.is_congested() && !first.queue(1, outgoing(), &message));
        assert!(first.queue(1, HandoverItem::Unsent, &message), "its source is bounded");
        while second.receive().is_some() {}
        assert!(!first.is_congested() && first.queue(1, outgoing(), &message));
    }

    #[test]
    fn the_owner_of_a_connection_is_known_until_the_connection_ends() {
        let [mut first, _] = two();
        first.record_connection(peer(), 1, true);
        assert_eq!(first.connection_owner(peer()), Some(1));
        first.record_connection(peer(), 0, false);
        assert_eq!(first.connection_owner(peer()), Some(1), "the peer has another connection");
        first.record_connection(peer(), 1, false);
        assert_eq!(first.connection_owner(peer()), None);
    }
}
