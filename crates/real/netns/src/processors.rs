//! Processors of the nodes and of the testbed itself. The testbed avoids the processors of nodes if possible.

use netrig_experiment::{Node, Scenario, Unsupported};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::unsupported;

/// A set of these processors; `None` if the list is empty.
pub(crate) fn set(cpus: &[u32]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu as usize));
    (!cpus.is_empty()).then_some(set)
}

/// The processors on which this thread may run.
pub(crate) fn available() -> Option<Vec<u32>> {
    let set = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU as u32).filter(|cpu| set.is_set(*cpu as usize)).collect())
}

/// Checks that this thread may run on the processors of all nodes.
///
/// # Errors
/// If a processor is not available. The error names the first such processor.
pub(crate) fn check(scenario: &Scenario) -> Result<(), Unsupported> {
    let Some(there) = available() else { return Ok(()) };
    for node in &scenario.nodes {
        if let Some(cpu) = node.cpus.iter().find(|cpu| !there.contains(cpu)) {
            let numbers: Vec<_> = there.iter().map(ToString::to_string).collect();
            return unsupported(format!(
                "node `{}` is bound to processor {cpu}, but netrig may run only on {} here",
                node.name,
                numbers.join(", ")
            ));
        }
    }
    Ok(())
}

/// The processors in `there` that the testbed itself uses. If possible, it avoids the processors of all nodes.
/// Otherwise it avoids those of nodes with programs or limits, and otherwise those of nodes with limits. `None`
/// if there is no processor to avoid, or if none would be left.
fn left_over(scenario: &Scenario, there: &[u32]) -> Option<Vec<u32>> {
    let without = |kept_off: &dyn Fn(&Node) -> bool| {
        let nodes = scenario.nodes.iter().filter(|node| kept_off(node));
        let named: Vec<u32> = nodes.flat_map(|node| &node.cpus).copied().collect();
        let left: Vec<u32> = there.iter().copied().filter(|cpu| !named.contains(cpu)).collect();
        (!left.is_empty() && left.len() < there.len()).then_some(left)
    };
    let is_constrained = |node: &Node| node.host.is_constrained();
    without(&|_| true)
        .or_else(|| without(&|node| !node.programs.is_empty() || is_constrained(node)))
        .or_else(|| without(&is_constrained))
}

/// Keeps the calling thread, and the threads that it starts, off the processors of nodes. Dropping the guard
/// restores the affinity of only the calling thread.
pub(crate) struct AffinityGuard {
    before: Option<CpuSet>,
}

impl AffinityGuard {
    /// Moves the calling thread to the processors that the testbed uses.
    pub fn of(scenario: &Scenario) -> Self {
        let before = sched_getaffinity(None).ok();
        let left = available().and_then(|there| left_over(scenario, &there));
        let moved = left.and_then(|left| set(&left)).is_some_and(|set| sched_setaffinity(None, &set).is_ok());
        Self { before: before.filter(|_| moved) }
    }
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // The kernel refuses only if the processors no longer exist.
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use netrig_experiment::Experiment;

    use super::*;

    fn scenario(a: &str, b: &str) -> Scenario {
        let text = format!(
            "format = 1\nname = \"bound\"\nduration = \"1 s\"\n[node.a]\n{a}\n[node.b]\n{b}\n\
             application = {{ kind = \"program\", command = [\"true\"] }}\n\
             [link.l]\nbetween = [\"a\", \"b\"]\nkind = \"direct\"\n[flow.f]\nfrom = \"a\"\nto = \"b\"\n\
             application = {{ kind = \"cbr\", interval = \"1 ms\", size = \"100 B\" }}\n\
             [response.r]\nof = \"flow.f\"\nmetric = \"datagram_loss\"\n"
        );
        let experiment =
            Experiment::parse("bound.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
        (*experiment.plan().run(0, 1).unwrap().scenario).clone()
    }

    #[test]
    fn the_testbed_keeps_off_programs_first_of_all() {
        let left = |a, b, there: &[u32]| left_over(&scenario(a, b), there);
        assert_eq!(left("", "", &[0, 1]), None);
        assert_eq!(left("cpus = [1]", "cpus = [0]", &[0, 1, 2, 3]), Some(vec![2, 3]));
        // If the testbed must share one of two processors, it does not share the program's processor.
        assert_eq!(left("cpus = [1]", "cpus = [0]", &[0, 1]), Some(vec![1]));
        assert_eq!(left("cpus = [0]", "cpus = [0]", &[0]), None);
        // The testbed avoids the processor of a load first.
        assert_eq!(left("cpus = [0]\nload = 0.5", "cpus = [1]", &[0, 1]), Some(vec![1]));
        assert_eq!(left("cpus = [0]\nquota = 0.5", "cpus = [1, 2]", &[0, 1, 2]), Some(vec![1, 2]));
    }

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        assert!(check(&scenario("", "")).is_ok());
        let refused = check(&scenario("cpus = [1000]", "")).unwrap_err().to_string();
        assert!(refused.contains("node `a` is bound to processor 1000"), "{refused}");
    }
}
