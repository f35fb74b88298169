//! Limits and evicts connections when a server is full. All servers use the same rules. This module uses no sockets and
//! no clock.
//!
//! A connection is a *stranger* until its peer has proved that it is legitimate, by a key or a complete message. It is
//! then *known*. Strangers have a limit of their own, so that they cannot exclude known connections. The number of
//! connections is also limited per address and per group of addresses (a /24 of IPv4, a /48 of IPv6). If the limit of
//! strangers is reached, a stranger is evicted to admit a new connection: in the group with the most strangers, the
//! oldest connection of the address with the most strangers. A new connection is refused only if its own address has
//! the most strangers.
//!
//! The caller reports to [`ConnectionSlots`] each connection that opens, becomes known or ends.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use netrig_core::setting::AtLeastOne;
use netrig_core::settings;

settings! {
    /// A user's limits on the connections that a server accepts.
    #[derive(Clone, Copy, Debug)]
    pub struct ConnectionLimits with defaults {
        /// Connections from one address (for IPv6: from one /64); loopback addresses have no limit by default.
        connections_per_address: Option<usize> as AtLeastOne { heading: "Limits" };
        /// Connections from one /24 of IPv4 or /48 of IPv6; loopback addresses have no limit by default.
        connections_per_group: Option<usize> as AtLeastOne { heading: "Limits" };
    }
}

impl ConnectionLimits {
    /// The limits of a server, in which the limits that the user has set replace the defaults.
    #[must_use]
    pub fn of(self, limits: SlotLimits) -> SlotLimits {
        limits.set(self.connections_per_address, self.connections_per_group)
    }
}

/// Limits of simultaneous connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimits {
    /// Maximum number of strangers.
    pub strangers: usize,
    /// Maximum number of known connections.
    pub known: usize,
    /// Maximum number of strangers and known connections together.
    pub total: usize,
    /// Maximum number of connections from one IPv4 address or one /64 of IPv6, which is the usual size of one network
    /// (RFC 6177 section 2). Strangers and known connections count together.
    pub per_address: usize,
    /// Maximum number of connections from one group of addresses.
    pub per_group: usize,
    /// Whether the limits per address and per group also apply to loopback addresses. A tester on the same host opens
    /// thousands of connections from them.
    pub on_loopback: bool,
}

impl SlotLimits {
    /// Limits of a public server. An eighth of all connections is reserved for strangers. One address may have at most
    /// half of all connections, and one group at most three quarters.
    pub const fn shared(total: usize) -> Self {
        Self {
            known: total - total / 8,
            per_address: at_least_one(total / 2),
            per_group: at_least_one(total - total / 4),
            ..Self::unshared(total)
        }
    }

    /// Limits of a server that may have only one client host, as in an experiment. Only the total is limited.
    pub const fn unshared(total: usize) -> Self {
        Self {
            strangers: total,
            known: total,
            total,
            per_address: total,
            per_group: total,
            on_loopback: false,
        }
    }

    /// Reduces the limits to `held` connections, the number that the system can hold. An eighth of them is reserved for
    /// strangers.
    #[must_use]
    pub fn within(self, held: usize) -> Self {
        if held >= self.total {
            return self;
        }
        Self { known: self.known.min(held - held / 8), total: held, ..self }
    }

    /// Replaces the limits per address and per group by those that a user has set. Limits of a user also apply to
    /// loopback addresses.
    #[must_use]
    pub fn set(self, per_address: Option<usize>, per_group: Option<usize>) -> Self {
        Self {
            per_address: per_address.unwrap_or(self.per_address),
            per_group: per_group.unwrap_or(self.per_group),
            on_loopback: self.on_loopback || per_address.is_some() || per_group.is_some(),
            ..self
        }
    }
}

const fn at_least_one(count: usize) -> usize {
    if count == 0 { 1 } else { count }
}

/// Identifier of a connection. Later connections have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u64);

/// Why a connection gets no slot. The message is sent to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// The address of the peer has reached its limit.
    #[error("your address has reached its limit of connections ({0}); try again when one has ended")]
    Address(usize),
    /// The group of the peer's address has reached its limit.
    #[error("your network has reached its limit of connections ({0}); try again when one has ended")]
    Group(usize),
    /// All slots are in use, and no other connection can be evicted.
    #[error("the server has as many connections as it can hold; try again later")]
    Full,
}

/// The slot of a new connection, and the connection that was evicted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnteredSlot {
    /// The new connection.
    pub slot: SlotId,
    /// The evicted stranger, if any. Its slot is already free. The caller must close the connection.
    pub gives_way: Option<SlotId>,
}

/// The prefix of an address with `bits[0]` bits for IPv4 and `bits[1]` bits for IPv6. An IPv4-mapped IPv6 address (RFC
/// 4291 section 2.5.5.2) counts as IPv4.
fn network(address: IpAddr, bits: [u32; 2]) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let host = 32 - bits[0];
            IpAddr::V4((address.to_bits() >> host << host).into())
        }
        IpAddr::V6(address) => {
            let host = 128 - bits[1];
            IpAddr::V6((address.to_bits() >> host << host).into())
        }
    }
}

/// The prefixes of an address that count as one address (/32 or /64) and as one group (/24 or /48).
fn counted(address: IpAddr) -> [IpAddr; 2] {
    [network(address, [32, 64]), network(address, [24, 48])]
}

/// The strangers of one group.
#[derive(Debug, Default)]
struct StrangerGroup {
    len: usize,
    by_address: BTreeMap<IpAddr, BTreeSet<SlotId>>,
    /// Addresses of the group, ordered by their number of strangers.
    ranked: BTreeSet<(usize, IpAddr)>,
}

/// The slots of a server and their connections.
#[derive(Debug)]
pub struct ConnectionSlots {
    limits: SlotLimits,
    next: u64,
    /// Address of each connection, and whether the connection is known.
    slots: BTreeMap<SlotId, (IpAddr, bool)>,
    /// Number of connections of each address, and of each group.
    of_address: BTreeMap<IpAddr, usize>,
    of_group: BTreeMap<IpAddr, usize>,
    strangers: usize,
    groups: BTreeMap<IpAddr, StrangerGroup>,
    /// Groups, ordered by their number of strangers.
    ranked: BTreeSet<(usize, IpAddr)>,
}

impl ConnectionSlots {
    /// Creates slots without connections.
    pub fn new(limits: SlotLimits) -> Self {
        Self {
            limits,
            next: 0,
            slots: BTreeMap::new(),
            of_address: BTreeMap::new(),
            of_group: BTreeMap::new(),
            strangers: 0,
            groups: BTreeMap::new(),
            ranked: BTreeSet::new(),
        }
    }

    /// Changes the total limit. Existing connections keep their slots.
    pub fn set_total(&mut self, total: usize) {
        self.limits.total = total;
    }

    /// Number of connections that have a slot.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether no connection has a slot.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Admits a connection from the address `from` as a stranger.
    ///
    /// # Errors
    /// If there is no slot for the connection.
    pub fn enter(&mut self, from: IpAddr) -> Result<EnteredSlot, SlotRefusal> {
        let [address, group] = counted(from);
        if !from.to_canonical().is_loopback() || self.limits.on_loopback {
            let count = |of: &BTreeMap<IpAddr, usize>, key| of.get(&key).copied().unwrap_or(0);
            if count(&self.of_address, address) >= self.limits.per_address {
                return Err(SlotRefusal::Address(self.limits.per_address));
            }
            if count(&self.of_group, group) >= self.limits.per_group {
                return Err(SlotRefusal::Group(self.limits.per_group));
            }
        }
        let is_room = self.strangers < self.limits.strangers && self.slots.len() < self.limits.total;
        let gives_way =
            if is_room { None } else { Some(self.find_evicted(address, group).ok_or(SlotRefusal::Full)?) };
        if let Some(gives_way) = gives_way {
            self.leave(gives_way);
        }
        let slot = SlotId(self.next);
        self.next += 1;
        self.slots.insert(slot, (address, false));
        *self.of_address.entry(address).or_default() += 1;
        *self.of_group.entry(group).or_default() += 1;
        self.count_stranger(slot, address, true);
        Ok(EnteredSlot { slot, gives_way })
    }

    /// The stranger to evict for a connection from `address`; `None` if no other address has more strangers.
    fn find_evicted(&self, address: IpAddr, group: IpAddr) -> Option<SlotId> {
        let own = self.groups.get(&group);
        let (_, largest) = *self.ranked.last()?;
        let own_len = own.map_or(0, |own| own.len);
        // If the new connection's own group is one of the largest groups, it is chosen.
        let is_own = self.groups[&largest].len <= own_len;
        let chosen = if is_own { own? } else { &self.groups[&largest] };
        let (most, of) = *chosen.ranked.last()?;
        let own_strangers = own.and_then(|own| own.by_address.get(&address)).map_or(0, BTreeSet::len);
        if is_own && most <= own_strangers {
            return None;
        }
        chosen.by_address.get(&of)?.first().copied()
    }

    /// Makes a stranger a known connection.
    ///
    /// # Errors
    /// If the limit of known connections is reached, or the stranger was evicted. The connection then has no slot, and
    /// the caller must close it.
    pub fn prove(&mut self, slot: SlotId) -> Result<(), SlotRefusal> {
        let Some((address, is_known)) = self.slots.get(&slot).copied() else { return Err(SlotRefusal::Full) };
        if is_known {
            return Ok(());
        }
        if self.slots.len() - self.strangers >= self.limits.known {
            self.leave(slot);
            return Err(SlotRefusal::Full);
        }
        self.count_stranger(slot, address, false);
        self.slots.insert(slot, (address, true));
        Ok(())
    }

    /// Frees the slot of a connection. Does nothing if it is already free.
    pub fn leave(&mut self, slot: SlotId) {
        let Some((address, is_known)) = self.slots.remove(&slot) else { return };
        let [_, group] = counted(address);
        for (of, key) in [(&mut self.of_address, address), (&mut self.of_group, group)] {
            if let Some(count) = of.get_mut(&key) {
                *count -= 1;
                if *count == 0 {
                    of.remove(&key);
                }
            }
        }
        if !is_known {
            self.count_stranger(slot, address, false);
        }
    }

    /// Adds or removes a stranger in the counts.
    fn count_stranger(&mut self, slot: SlotId, address: IpAddr, comes: bool) {
        let [_, name] = counted(address);
        let group = self.groups.entry(name).or_default();
        let own = group.by_address.entry(address).or_default();
        let (before, whole) = (own.len(), group.len);
        if comes {
            own.insert(slot)
        } else {
            own.remove(&slot)
        };
        let after = own.len();
        group.len = whole - before + after;
        self.strangers = self.strangers - before + after;
        group.ranked.remove(&(before, address));
        self.ranked.remove(&(whole, name));
        if after > 0 {
            group.ranked.insert((after, address));
        } else {
            group.by_address.remove(&address);
        }
        if group.len > 0 {
            self.ranked.insert((group.len, name));
        } else {
            self.groups.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: SlotLimits =
        SlotLimits { strangers: 4, known: 2, total: 9, per_address: 3, per_group: 100, on_loopback: false };

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn enter(slots: &mut ConnectionSlots, from: &str) -> Result<EnteredSlot, SlotRefusal> {
        slots.enter(ip(from))
    }

    #[test]
    fn limits_that_are_shared_leave_an_eighth_to_strangers_also_where_fewer_connections_are_held() {
        let shared = SlotLimits::shared(1024);
        assert_eq!((shared.strangers, shared.known, shared.total), (1024, 896, 1024));
        assert_eq!((shared.per_address, shared.per_group), (512, 768));
        assert_eq!(shared.within(2000), shared);
        let fewer = shared.within(80);
        assert_eq!((fewer.known, fewer.total), (70, 80));
        let one = SlotLimits::shared(1);
        assert_eq!((one.known, one.per_address, one.per_group), (1, 1, 1));
    }

    #[test]
    fn an_address_and_a_group_have_a_limit() {
        let mut slots =
            ConnectionSlots::new(SlotLimits { per_group: 4, strangers: 100, total: 100, ..LIMITS });
        for from in ["192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1"] {
            enter(&mut slots, from).unwrap();
        }
        assert_eq!(enter(&mut slots, "192.0.2.1"), Err(SlotRefusal::Address(3)));
        let last = enter(&mut slots, "192.0.2.200").unwrap();
        assert_eq!(enter(&mut slots, "192.0.2.3"), Err(SlotRefusal::Group(4)));
        enter(&mut slots, "192.0.3.3").unwrap();
        slots.leave(last.slot);
        enter(&mut slots, "192.0.2.3").unwrap();
        // A /64 counts as one address, and a /48 as one group.
        for from in ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:9::"] {
            enter(&mut slots, from).unwrap();
        }
        assert_eq!(enter(&mut slots, "2001:db8:1:2::4"), Err(SlotRefusal::Address(3)));
        enter(&mut slots, "2001:db8:1:3::1").unwrap();
        assert_eq!(enter(&mut slots, "2001:db8:1:4::1"), Err(SlotRefusal::Group(4)));
        enter(&mut slots, "2001:db8:2::1").unwrap();
    }

    #[test]
    fn loopback_has_these_limits_only_if_asked_for() {
        for on_loopback in [false, true] {
            let mut slots =
                ConnectionSlots::new(SlotLimits { on_loopback, strangers: 100, total: 100, ..LIMITS });
            for from in ["127.0.0.1", "::1"] {
                let entered = (0..5).filter(|_| enter(&mut slots, from).is_ok()).count();
                assert_eq!(entered, if on_loopback { 3 } else { 5 }, "{from}");
            }
        }
    }

    #[test]
    fn the_largest_group_gives_way_and_in_it_the_oldest_of_the_largest_address() {
        let mut slots = ConnectionSlots::new(LIMITS);
        let alone = enter(&mut slots, "198.51.100.1").unwrap().slot;
        let other = enter(&mut slots, "192.0.2.9").unwrap().slot;
        let many = [(); 2].map(|()| enter(&mut slots, "192.0.2.1").unwrap().slot);
        assert_eq!(enter(&mut slots, "203.0.113.1").unwrap().gives_way, Some(many[0]));
        // Now the group's addresses have equal counts, and either may be evicted.
        let next = enter(&mut slots, "203.0.114.1").unwrap().gives_way.unwrap();
        assert!([many[1], other].contains(&next));
        // All groups have equal counts, so the new connection's own group is chosen.
        assert_eq!(enter(&mut slots, "198.51.100.1"), Err(SlotRefusal::Full));
        assert_eq!(enter(&mut slots, "198.51.100.2").unwrap().gives_way, Some(alone));
        assert_eq!(slots.len(), 4);
    }

    #[test]
    fn strangers_take_no_slot_of_those_that_are_known() {
        let mut slots = ConnectionSlots::new(SlotLimits { per_address: 100, ..LIMITS });
        let known = [(); 2].map(|()| enter(&mut slots, "192.0.2.1").unwrap().slot);
        known.iter().for_each(|slot| slots.prove(*slot).unwrap());
        let strangers = [(); 4].map(|()| enter(&mut slots, "192.0.2.1").unwrap());
        assert!(strangers.iter().all(|entered| entered.gives_way.is_none()));
        let newcomer = enter(&mut slots, "198.51.100.1").unwrap();
        assert_eq!(newcomer.gives_way, Some(strangers[0].slot));
        // Known connections are never evicted, and their number is limited.
        assert_eq!(slots.prove(newcomer.slot), Err(SlotRefusal::Full));
        slots.leave(known[0]);
        let again = enter(&mut slots, "198.51.100.1").unwrap();
        slots.prove(again.slot).unwrap();
        slots.prove(again.slot).unwrap();
    }

    proptest! {
        /// The counts agree with the existing connections for any order of connections that open, become known or end.
        #[test]
        fn the_counts_are_those_of_the_connections(
            steps in prop::collection::vec((0u8..3, 0u8..3, 0u8..2, 0usize..30), 1..200)
        ) {
            let limits =
                SlotLimits { strangers: 5, known: 5, total: 8, per_address: 4, per_group: 6, on_loopback: false };
            let mut slots = ConnectionSlots::new(limits);
            let mut held: Vec<(SlotId, IpAddr, bool)> = Vec::new();
            for (what, host, group, which) in steps {
                let from = IpAddr::from([192, 0, group, host]);
                match what {
                    0 => if let Ok(EnteredSlot { slot, gives_way }) = slots.enter(from) {
                        held.retain(|(held, ..)| Some(*held) != gives_way);
                        held.push((slot, from, false));
                    },
                    1 if which < held.len() => {
                        let (slot, _, is_known) = &mut held[which];
                        match slots.prove(*slot) {
                            Ok(()) => *is_known = true,
                            Err(_) => { held.remove(which); }
                        }
                    }
                    _ if which < held.len() => slots.leave(held.remove(which).0),
                    _ => {}
                }
                let strangers = held.iter().filter(|(.., is_known)| !is_known).count();
                prop_assert!(strangers <= 5 && held.len() - strangers <= 5 && held.len() <= 8);
                prop_assert_eq!((slots.len(), slots.strangers), (held.len(), strangers));
                prop_assert_eq!(slots.of_group.values().sum::<usize>(), held.len());
                prop_assert_eq!(slots.ranked.iter().map(|(count, _)| count).sum::<usize>(), strangers);
            }
        }
    }
}
