//! Finds paths through the topology: paths that the file names, and shortest paths.

use std::collections::VecDeque;

use netrig_core::Direction;

use super::groups::wired;
use super::topology::Topology;
use crate::file::sections::PathSpec;
use crate::{Hop, LinkSpec, Route};

/// The reason why a path is invalid.
pub(super) enum PathError {
    /// There is no link `link`. `at` is its index in the path, if the path is a list of links.
    Unknown { link: String, at: Option<usize> },
    /// The links are not a path from one end to the other: they do not connect the ends, the list is empty, a node is
    /// visited twice, or a group has no link with the required number.
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
    /// For each node, the previous node and the link from that node.
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

    /// The path with the fewest links. Of several such paths, the one whose first link is earlier in the file, then the
    /// one whose second link is earlier, and so on.
    pub(super) fn shortest(&mut self, from: usize, to: usize) -> Option<Route> {
        // A node with one link is only an end of paths, and all its paths use that link. So the search starts at the
        // neighbour of such a node. A thousand clients of one router need only one search.
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

    /// Breadth-first search. Neighbours are visited in the order of their links. So the first path that reaches a node
    /// is a shortest path, and of these the first in the order of the file.
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

    /// The path that the file names, for the `i`-th flow of a group.
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

    /// The link with this name in a path, for the `i`-th flow of a group.
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

    /// The route over `links`, the first of which starts at the node `from`.
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
