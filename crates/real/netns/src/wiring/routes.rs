//! The routes of each node for the paths of a scenario.

use std::collections::BTreeMap;
use std::net::IpAddr;

use netrig_core::Direction;
use netrig_experiment::Route;

use super::link::{LinkWiring, WiringError};

/// A route to one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRoute {
    /// The source address of the packets. `None`: the route applies to all other sources.
    pub from: Option<IpAddr>,
    /// The destination address.
    pub to: IpAddr,
    /// The address of the next node.
    pub via: IpAddr,
    /// Index of the link to the next node.
    pub link: usize,
}

/// The routing table of a node: for each destination, the sources in the order of the paths, each with its next
/// hop.
#[derive(Default)]
struct RoutingTable {
    forwards: bool,
    destinations: BTreeMap<IpAddr, Vec<(IpAddr, NextHop)>>,
}

type NextHop = (IpAddr, usize);

pub(super) struct RoutingTables(Vec<RoutingTable>);

impl RoutingTables {
    /// Computes the tables from all paths, in both directions and for both IP versions. `paths` contains each
    /// path with its first node.
    pub(super) fn new<'a>(
        names: &[&str],
        links: &[LinkWiring],
        paths: impl Iterator<Item = (usize, &'a Route)>,
    ) -> Result<Self, WiringError> {
        let mut table = Self(names.iter().map(|_| RoutingTable::default()).collect());
        for (from, path) in paths {
            let there: Vec<_> = path.hops.iter().map(|hop| (hop.link, far_end(hop.direction))).collect();
            debug_assert_eq!(there.first().map(|&(link, end)| links[link].ends[1 - end].node), Some(from));
            let back: Vec<_> = there.iter().rev().map(|&(link, end)| (link, 1 - end)).collect();
            for hops in [there, back] {
                table.read(names, links, &hops)?;
            }
        }
        Ok(table)
    }

    /// Adds one direction of a path to the tables. `hops` contains its links, each with the end at which packets
    /// leave the link.
    fn read(
        &mut self,
        names: &[&str],
        links: &[LinkWiring],
        hops: &[(usize, usize)],
    ) -> Result<(), WiringError> {
        let (Some(&(first, entered)), Some(&(last, end))) = (hops.first(), hops.last()) else {
            return Ok(());
        };
        for &(link, end) in &hops[..hops.len() - 1] {
            self.0[links[link].ends[end].node].forwards = true;
        }
        for to in &links[last].ends[end].addresses {
            let Some(from) = links[first].ends[1 - entered].address_like(to) else { continue };
            // If a link of the path cannot carry IPv6, IPv6 does not have this path.
            if hops.iter().any(|&(link, end)| links[link].ends[end].address_like(to).is_none()) {
                continue;
            }
            // The last link needs no route, because its far end is a neighbour.
            for &(link, end) in &hops[..hops.len() - 1] {
                let node = links[link].ends[1 - end].node;
                let Some(via) = links[link].ends[end].address_like(to) else { continue };
                let routes = self.0[node].destinations.entry(*to).or_default();
                match routes.iter().find(|(source, _)| *source == from) {
                    None => routes.push((from, (via, link))),
                    Some((_, next)) if *next == (via, link) => {}
                    Some(_) => {
                        return Err(WiringError::Parting { node: names[node].to_owned(), from, to: *to });
                    }
                }
            }
        }
        Ok(())
    }

    /// For each node, whether it forwards packets, and its routes. The first path to an address gives the route
    /// for all sources. A source has its own route only if its path differs from the first path.
    pub(super) fn into_nodes(self) -> impl Iterator<Item = (bool, Vec<NodeRoute>)> {
        self.0.into_iter().map(|node| {
            let routes = node.destinations.into_iter().flat_map(|(to, routes)| {
                let usual = routes[0].1;
                let own =
                    routes.into_iter().enumerate().filter(move |(i, (_, next))| *i == 0 || *next != usual);
                own.map(move |(i, (from, (via, link)))| NodeRoute {
                    from: (i > 0).then_some(from),
                    to,
                    via,
                    link,
                })
            });
            (node.forwards, routes.collect())
        })
    }
}

/// The end of a link at which packets in this direction arrive.
fn far_end(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 1,
        Direction::Backward => 0,
    }
}
