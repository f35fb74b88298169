//! Paths through topologies: compares shortest paths with another algorithm, and tests large counts.

use netrig_core::Direction;
use netrig_experiment::{Experiment, Flow, Scenario};
use proptest::prelude::*;

/// A file with this number of nodes, these links, and a flow from the first node to the last.
fn file(nodes: usize, links: &[(usize, usize)]) -> String {
    let mut text =
        "format = 1\nname = \"graph\"\nduration = \"1 s\"\n[transport.tcp]\nkind = \"tcp\"\n".to_owned();
    (0..nodes).for_each(|n| text += &format!("[node.n{n}]\n"));
    for (n, (a, b)) in links.iter().enumerate() {
        text += &format!(
            "[link.l{n}]\nbetween = [\"n{a}\", \"n{b}\"]\nrate = \"1 Mbit/s\"\nqueue = {{ kind = \"fifo\", packets = 9 }}\n"
        );
    }
    text + &format!(
        "[flow.f]\nfrom = \"n0\"\nto = \"n{}\"\ntransport = \"tcp\"\napplication = {{ kind = \"bulk\" }}\n\
         [response.r]\nof = \"flow.f\"\nmetric = \"goodput\"\n",
        nodes - 1
    )
}

/// The nodes of a flow's path, in order.
fn nodes_passed(scenario: &Scenario, flow: &Flow) -> Vec<usize> {
    let mut passed = vec![flow.from];
    for hop in &flow.paths[0].hops {
        let ends = scenario.links[hop.link].ends;
        let [near, far] = if hop.direction == Direction::Forward { ends } else { [ends[1], ends[0]] };
        assert_eq!(passed.last(), Some(&near), "the links follow each other");
        passed.push(far);
    }
    passed
}

/// The smallest number of links between any two nodes (Floyd 1962, Warshall 1962); `None` without a path.
fn distances(nodes: usize, links: &[(usize, usize)]) -> Vec<Vec<Option<usize>>> {
    let mut table = vec![vec![None; nodes]; nodes];
    (0..nodes).for_each(|n| table[n][n] = Some(0));
    for &(a, b) in links {
        table[a][b] = Some(1);
        table[b][a] = Some(1);
    }
    for via in 0..nodes {
        for a in 0..nodes {
            for b in 0..nodes {
                if let (Some(there), Some(on)) = (table[a][via], table[via][b])
                    && table[a][b].is_none_or(|direct| there + on < direct)
                {
                    table[a][b] = Some(there + on);
                }
            }
        }
    }
    table
}

/// Of all shortest paths, the one whose list of links is first in the order of the file. The search tries the links at
/// each node in this order.
fn first_of_shortest(
    from: usize,
    to: usize,
    links: &[(usize, usize)],
    distances: &[Vec<Option<usize>>],
) -> Vec<usize> {
    let (mut node, mut way) = (from, Vec::new());
    while let Some(left @ 1..) = distances[node][to] {
        for (link, &(a, b)) in links.iter().enumerate() {
            let next = if a == node {
                b
            } else if b == node {
                a
            } else {
                continue;
            };
            if distances[next][to] == Some(left - 1) {
                way.push(link);
                node = next;
                break;
            }
        }
    }
    way
}

proptest! {
    #[test]
    fn the_route_is_the_shortest_and_the_first_of_these(
        nodes in 2..9usize,
        pairs in prop::collection::vec((0..9usize, 0..9usize), 1..16),
    ) {
        let links: Vec<(usize, usize)> =
            pairs.into_iter().map(|(a, b)| (a % nodes, b % nodes)).filter(|(a, b)| a != b).collect();
        prop_assume!(!links.is_empty());
        let distances = distances(nodes, &links);
        match (Experiment::parse("graph.toml", file(nodes, &links)), distances[0][nodes - 1]) {
            (Ok(experiment), Some(shortest)) => {
                let scenario = experiment.plan().scenario(0).unwrap();
                let flow = &scenario.flows[0];
                let passed = nodes_passed(&scenario, flow);
                prop_assert_eq!(passed.last(), Some(&flow.to));
                prop_assert_eq!(flow.paths[0].hops.len(), shortest);
                let way: Vec<usize> = flow.paths[0].hops.iter().map(|hop| hop.link).collect();
                prop_assert_eq!(way, first_of_shortest(0, nodes - 1, &links, &distances));
            }
            (Err(diagnostics), None) => prop_assert!(diagnostics.to_string().contains("no links lead from `n0`")),
            (Ok(_), None) => prop_assert!(false, "a way where there is none"),
            (Err(diagnostics), Some(_)) => prop_assert!(false, "{}", diagnostics),
        }
    }
}

#[test]
fn a_path_may_go_against_the_direction_of_links() {
    let text = file(3, &[(1, 0), (2, 1)]);
    let scenario = Experiment::parse("graph.toml", text).unwrap().plan().scenario(0).unwrap();
    assert!(scenario.flows[0].paths[0].hops.iter().all(|hop| hop.direction == Direction::Backward));
    assert_eq!(scenario.flows[0].paths[0].name, "l0>l1");
}

/// The dumbbell file with `users` pairs of hosts over one line.
fn dumbbell(users: usize) -> String {
    include_str!("files/dumbbell.toml").replacen("pairs = [2, 10]", &format!("pairs = {users}"), 1)
}

#[test]
fn a_thousand_flows_each_have_their_way() {
    let scenario = Experiment::parse("dumbbell.toml", dumbbell(1000)).unwrap().plan().scenario(0).unwrap();
    assert_eq!((scenario.nodes.len(), scenario.links.len(), scenario.flows.len()), (2002, 2001, 1000));
    for (n, flow) in scenario.flows.iter().enumerate() {
        assert_eq!(nodes_passed(&scenario, flow), [flow.from, 1000, 1001, flow.to]);
        assert_eq!(flow.paths[0].name, format!("access#{0}>bottleneck>exit#{0}", n + 1));
    }
}

#[test]
fn more_than_can_be_handled_is_refused_before_it_is_built() {
    for (users, what) in
        [(5000, "10002 nodes; at most 10000"), (u32::MAX as usize, "4294967295 nodes; at most 10000")]
    {
        let error = Experiment::parse("dumbbell.toml", dumbbell(users)).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
    let many = |section: &str, count: &str| {
        let text = file(2, &[(0, 1)]).replacen(section, &format!("{section}\ncount = {count}"), 1);
        Experiment::parse("graph.toml", text).unwrap_err().to_string()
    };
    assert!(many("[link.l0]", "20001").contains("20001 links; at most 20000"));
    assert!(many("[flow.f]", "10001").contains("10001 flows; at most 10000"));
}

#[test]
fn parallel_links_make_paths_by_number() {
    let text = file(2, &[(0, 1)]).replacen("[link.l0]", "[link.l0]\ncount = 3", 1).replacen(
        "kind = \"tcp\"",
        "kind = \"sctp\"\npaths = [\"l0#2\", \"l0#1\"]",
        1,
    );
    let scenario = Experiment::parse("graph.toml", text).unwrap().plan().scenario(0).unwrap();
    let paths: Vec<(&str, usize)> =
        scenario.flows[0].paths.iter().map(|path| (path.name.as_str(), path.hops[0].link)).collect();
    assert_eq!(paths, [("l0#2", 1), ("l0#1", 0)]);
}
