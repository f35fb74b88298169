//! The router's ports. Each port is the router's interface for one end of a link.

use std::ops::{Index, IndexMut};

use netrig_core::{Direction, Subject};

/// The index of the first interface. It is above the indices of the tunnels that a kernel creates in a new namespace.
const FIRST_INDEX: u32 = 1000;

/// A port. Ports are numbered in the order of the links: the port at the first end of a link, then the port at its
/// second end. A port also identifies a direction of the link: that of the frames that arrive at the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortId(usize);

impl PortId {
    /// The port at an end (0 or 1) of a link.
    pub fn of_end(link: usize, end: usize) -> Self {
        Self(2 * link + end)
    }

    /// The port at which frames in this direction of a link arrive.
    pub fn of_direction(link: usize, direction: Direction) -> Self {
        Self::of_end(link, direction as usize)
    }

    /// The port whose interface has this index in the router's namespace. `None` if the index is below that of the
    /// first port.
    pub fn of_interface(index: u32) -> Option<Self> {
        Some(Self(index.checked_sub(FIRST_INDEX)? as usize))
    }

    /// The index of the port's interface in the router's namespace. The node's interface on the same veth pair has the
    /// same index in its namespace.
    pub fn interface(self) -> u32 {
        // At most 20 000 links.
        FIRST_INDEX + self.0 as u32
    }

    /// The port at the other end of the link.
    pub fn far(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Index of the link.
    pub fn link(self) -> usize {
        self.0 / 2
    }

    /// The link and the direction of the frames that arrive at this port.
    pub fn subject(self) -> Subject {
        let direction = if self.0.is_multiple_of(2) { Direction::Forward } else { Direction::Backward };
        Subject::Link(self.link() as u32, direction)
    }
}

/// One value for each port. `None` for an end of a direct link, where the router has no port.
#[derive(Clone, Debug)]
pub(crate) struct PerPort<T>(Vec<Option<T>>);

impl<T> PerPort<T> {
    /// The value of a port, if the port exists.
    pub fn get(&self, port: PortId) -> Option<&T> {
        self.0.get(port.0)?.as_ref()
    }

    /// The port numbers of all ends of links, including ends of direct links, which have no port.
    pub fn ends(&self) -> impl Iterator<Item = PortId> + use<T> {
        (0..self.0.len()).map(PortId)
    }

    /// The values in the order of the ports.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}

/// Collects one value for each end of each link, in the order of the ports.
impl<T> FromIterator<Option<T>> for PerPort<T> {
    fn from_iter<I: IntoIterator<Item = Option<T>>>(things: I) -> Self {
        Self(things.into_iter().collect())
    }
}

/// Panic message if the port does not exist.
const NO_PORT: &str = "a port of the router's";

impl<T> Index<PortId> for PerPort<T> {
    type Output = T;

    fn index(&self, port: PortId) -> &T {
        self.0[port.0].as_ref().expect(NO_PORT)
    }
}

impl<T> IndexMut<PortId> for PerPort<T> {
    fn index_mut(&mut self, port: PortId) -> &mut T {
        self.0[port.0].as_mut().expect(NO_PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_known_by_its_link_and_end_and_by_its_interface() {
        let port = PortId::of_end(3, 1);
        assert_eq!((port, port.interface()), (PortId::of_direction(3, Direction::Backward), 1007));
        assert_eq!((port.link(), port.subject()), (3, Subject::Link(3, Direction::Backward)));
        assert_eq!((port.far(), port.far().far()), (PortId::of_end(3, 0), port));
        assert_eq!((PortId::of_interface(1007), PortId::of_interface(999)), (Some(port), None));
        let names: PerPort<&str> = [Some("a"), Some("b"), None].into_iter().collect();
        assert_eq!(names.ends().filter_map(|port| names.get(port)).collect::<Vec<_>>(), [&"a", &"b"]);
        assert_eq!((names[PortId::of_end(0, 1)], names.iter().count()), ("b", 2));
        assert!(names.get(PortId::of_end(1, 0)).is_none() && names.get(port).is_none());
    }
}
