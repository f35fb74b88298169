//! Paths through the topology: named ones and shortest ones.

use std::collections::VecDeque;

use netrig_core::Direction;

use super::groups::wired;
use super::topology::Topology;
use crate::file::sections::PathSpec;
use crate::{Hop, LinkSpec, Route};

/// Why a path is invalid.
pub(super) enum PathError {
    /// There is no link `link`. `at` is its index, if the path is a list of links.
    Unknown { link: String, at: Option<usize> },
    /// It is no path from one end to the other: it does not connect them, is an empty list, visits a node twice, or means a
    /// link that its group does not have.
    Broken { why: String, at: Option<usize> },
}

/// Finds paths between nodes.
pub(super) struct PathFinder<'a> {
    topology: &'a Topology,
    /// For each node, its neighbours with the link to each, in the order of the links.
    neighbours: Vec<Vec<(usize, usize)>>,
    /// The tree of shortest paths from the last requested node.
    tree: Option<Tree>,
}

/// Shortest paths from one node.
struct Tree {
    root: usize,
    /// For each node, the previous node and the link from there.
    before: Vec<Option<(usize, usize)>>,
}

impl<'a> PathFinder<'a> {
    pub(super) fn new(topology: &'a Topology) -> Self {
        let mut neighbours = vec![Vec::new(); topology.nodes.len()];
        for (link, LinkSpec { ends: [a, b], .. }) in topology.links.iter().enumerate() {
            neighbours[*a].push((*b, link));
            neighbours[*b].push((*a, link));
        }
        Self { topology, neighbours, tree: None }
    }

    /// The path with the fewest links; among several, the one whose first link (then second, and so on) is
    /// first in the file.
    pub(super) fn shortest(&mut self, from: usize, to: usize) -> Option<Route> {
        // No path leads through a node with one link, and a path from or to it uses that link. So the search
        // starts at the node behind it, and a thousand clients behind one router need one search.
        let start = match self.neighbours[from].as_slice() {
            [] => return None,
            [(next, link)] if *next == to => return Some(self.route(from, &[*link])),
            [(next, _)] => *next,
            _ => from,
        };
        let goal = match self.neighbours[to].as_slice() {
            [] => return None,
            [(next, _)] => *next,
            _ => to,
        };
        let mut links = Vec::new();
        if goal != to {
            links.push(self.neighbours[to][0].1);
        }
        let tree = self.tree(start);
        let mut node = goal;
        while node != start {
            let (before, link) = tree.before[node]?;
            links.push(link);
            node = before;
        }
        if start != from {
            links.push(self.neighbours[from][0].1);
        }
        links.reverse();
        Some(self.route(from, &links))
    }

    /// The tree of shortest paths from `root` to all nodes with more than one link.
    fn tree(&mut self, root: usize) -> &Tree {
        let tree = match self.tree.take() {
            Some(tree) if tree.root == root => tree,
            _ => self.search(root),
        };
        self.tree.insert(tree)
    }

    /// Breadth-first search. Neighbours are visited in the order of their links, so the first path found to a
    /// node is the shortest, and among the shortest the first in the order of the file.
    fn search(&self, root: usize) -> Tree {
        let mut before = vec![None; self.neighbours.len()];
        let mut queue = VecDeque::from([root]);
        while let Some(node) = queue.pop_front() {
            for &(next, link) in &self.neighbours[node] {
                if next != root && before[next].is_none() && self.neighbours[next].len() > 1 {
                    before[next] = Some((node, link));
                    queue.push_back(next);
                }
            }
        }
        Tree { root, before }
    }

    /// The path that a file names for the `i`-th of several flows.
    pub(super) fn named(
        &self,
        path: &PathSpec,
        i: usize,
        from: usize,
        to: usize,
    ) -> Result<Route, PathError> {
        match path {
            PathSpec::Link(name) => self.direct(name, i, from, to),
            PathSpec::Route(names) => self.along(names, i, from, to),
        }
    }

    fn direct(&self, name: &str, i: usize, from: usize, to: usize) -> Result<Route, PathError> {
        let link = self.link(name, i, None)?;
        let [a, b] = self.topology.links[link].ends;
        if [a, b] == [from, to] || [b, a] == [from, to] {
            return Ok(self.route(from, &[link]));
        }
        let ends = [self.name(a), self.name(b)];
        Err(PathError::Broken {
            why: format!(
                "link `{name}` joins `{}` and `{}`, not `{}` and `{}`; a path over several links is a list of them",
                ends[0],
                ends[1],
                self.name(from),
                self.name(to)
            ),
            at: None,
        })
    }

    fn along(&self, names: &[String], i: usize, from: usize, to: usize) -> Result<Route, PathError> {
        let broken = |at: Option<usize>, why: String| PathError::Broken { why, at };
        if names.is_empty() {
            return Err(broken(None, "a path has at least one link".into()));
        }
        let mut node = from;
        let mut passed = vec![from];
        let mut links = Vec::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            let link = self.link(name, i, Some(at))?;
            let [a, b] = self.topology.links[link].ends;
            let next = match node {
                n if n == a => b,
                n if n == b => a,
                _ => {
                    let (a, b, here) = (self.name(a), self.name(b), self.name(node));
                    let why = format!("link `{name}` joins `{a}` and `{b}`, but the path is at `{here}`");
                    return Err(broken(Some(at), why));
                }
            };
            if passed.contains(&next) {
                let why = format!("the path visits `{}` twice", self.name(next));
                return Err(broken(Some(at), why));
            }
            links.push(link);
            passed.push(next);
            node = next;
        }
        if node != to {
            let why = format!("the path ends at `{}`, not at `{}`", self.name(node), self.name(to));
            return Err(broken(None, why));
        }
        Ok(self.route(from, &links))
    }

    /// The link that a path means for the `i`-th of several flows.
    fn link(&self, name: &str, i: usize, at: Option<usize>) -> Result<usize, PathError> {
        let Some(links) = self.topology.link(name) else {
            return Err(PathError::Unknown { link: name.to_owned(), at });
        };
        if links.len() == 1 || i < links.len() {
            return Ok(wired(&links, i));
        }
        let why = format!("there are {} links `{name}`, too few for flow number {}", links.len(), i + 1);
        Err(PathError::Broken { why, at })
    }

    fn name(&self, node: usize) -> &str {
        &self.topology.nodes[node].name
    }

    /// The route over `links`, which follow each other from `from` on.
    fn route(&self, from: usize, links: &[usize]) -> Route {
        let mut node = from;
        let mut names = Vec::with_capacity(links.len());
        let hops = links.iter().map(|&link| {
            let LinkSpec { ends: [a, b], name, .. } = &self.topology.links[link];
            names.push(name.as_str());
            let (direction, next) =
                if node == *a { (Direction::Forward, *b) } else { (Direction::Backward, *a) };
            node = next;
            Hop { link, direction }
        });
        let hops = hops.collect();
        Route { name: names.join(">"), hops }
    }
}
