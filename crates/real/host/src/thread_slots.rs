//! Limits the connections of a server that has a thread for each connection, by the rules of [`ConnectionSlots`].

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::connection_slots::{ConnectionSlots, SlotId, SlotLimits, SlotRefusal};

/// The slots of a server that has a thread for each connection.
#[derive(Debug)]
pub struct ThreadSlots(Mutex<SlotTable>);

#[derive(Debug)]
struct SlotTable {
    slots: ConnectionSlots,
    /// The sockets of unauthenticated connections (strangers). Shutting a socket down wakes up its thread.
    strangers: BTreeMap<SlotId, TcpStream>,
}

/// Why a connection gets no slot.
#[derive(Debug, thiserror::Error)]
pub enum ThreadSlotError {
    /// No slot is available.
    #[error(transparent)]
    Busy(#[from] SlotRefusal),
    /// The system has no descriptor left.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl ThreadSlots {
    /// Creates empty slots.
    pub fn new(limits: SlotLimits) -> Arc<Self> {
        let (slots, strangers) = (ConnectionSlots::new(limits), BTreeMap::new());
        Arc::new(Self(Mutex::new(SlotTable { slots, strangers })))
    }

    /// Admits a new connection. If a stranger is evicted for it, the stranger's socket is shut down, so that its thread
    /// ends.
    ///
    /// # Errors
    /// If there is no slot for the connection.
    pub fn enter(self: &Arc<Self>, socket: &TcpStream, from: IpAddr) -> Result<ThreadSlot, ThreadSlotError> {
        let socket = socket.try_clone()?;
        let mut held = self.held();
        let entered = held.slots.enter(from)?;
        if let Some(gone) = entered.gives_way.and_then(|slot| held.strangers.remove(&slot)) {
            // An error means that the peer has already closed the connection.
            let _ = gone.shutdown(Shutdown::Both);
        }
        held.strangers.insert(entered.slot, socket);
        Ok(ThreadSlot { slots: Arc::clone(self), slot: entered.slot })
    }

    fn held(&self) -> MutexGuard<'_, SlotTable> {
        // The table is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of a connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ThreadSlot {
    slots: Arc<ThreadSlots>,
    slot: SlotId,
}

impl ThreadSlot {
    /// Makes the connection a known connection after its peer has authenticated. A known connection is never evicted.
    ///
    /// # Errors
    /// If the limit of known connections is reached, or this connection was already evicted.
    pub fn prove(&self) -> Result<(), SlotRefusal> {
        let mut held = self.slots.held();
        held.strangers.remove(&self.slot);
        held.slots.prove(self.slot)
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        let mut held = self.slots.held();
        held.strangers.remove(&self.slot);
        held.slots.leave(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_thread_of_a_stranger_that_gives_way_finds_its_connection_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let limits =
            SlotLimits { strangers: 1, known: 1, total: 2, per_address: 9, per_group: 9, on_loopback: false };
        let slots = ThreadSlots::new(limits);
        let mut ends = Vec::new();
        let mut enter = |from: &str| {
            ends.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let (socket, _) = listener.accept().unwrap();
            slots.enter(&socket, from.parse().unwrap()).map(|slot| (socket, slot))
        };
        let (mut first, first_slot) = enter("192.0.2.1").unwrap();
        let (_second, second_slot) = enter("198.51.100.1").unwrap();
        assert_eq!(first.read(&mut [0]).unwrap(), 0);
        assert_eq!(first_slot.prove(), Err(SlotRefusal::Full));
        second_slot.prove().unwrap();
        let (_third, third_slot) = enter("203.0.113.1").unwrap();
        assert_eq!(third_slot.prove(), Err(SlotRefusal::Full));
        drop(second_slot);
        let (_fourth, fourth_slot) = enter("203.0.113.1").unwrap();
        fourth_slot.prove().unwrap();
    }
}
