//! A path of an experiment's nodes and links, built for a test.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use netrig_core::{Sample, Sink, Subject};
use netrig_experiment::Experiment;
use netrig_netns::{Journals, Lab, LabReport, Namespaces};
use netrig_test_support::ExperimentText;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::machine::can;

/// An experiment with a flow between the nodes `near` and `far`. An experiment needs a flow; the lab does not start it.
pub fn near_to_far(name: &str) -> ExperimentText {
    ExperimentText::new(name, "1 s")
        .table("replications", "count = 1")
        .table("transport.udp", r#"kind = "udp""#)
        .flow(
            "nothing",
            "near far",
            r#"transport = "udp",
            application = { kind = "poisson", size = { constant = "100 B" }, rate = "1 kbit/s" }"#,
        )
        .response("goodput", "flow.nothing", "goodput")
}

/// A sink that ignores all events.
pub struct DiscardingSink;

impl Sink for DiscardingSink {
    fn sample(&mut self, _subject: Subject, _sample: Sample) {}
}

/// A path that has been built.
pub struct PathLab<S: Sink + Send + 'static> {
    lab: Lab<S>,
    _journals: tempfile::TempDir,
}

impl PathLab<DiscardingSink> {
    /// Builds the nodes and links of an experiment. If this machine cannot build them, prints the reason to stderr and
    /// returns `None`.
    pub fn build_if_possible(name: &str, text: &str) -> Option<Self> {
        can(&["ip", "sysctl"]).then(|| Self::build(name, text, DiscardingSink))
    }
}

impl<S: Sink + Send + 'static> PathLab<S> {
    /// Builds the nodes and links of an experiment.
    pub fn build(name: &str, text: &str, sink: S) -> Self {
        let experiment = Experiment::parse(name, text).unwrap_or_else(|problems| panic!("{problems}"));
        let run = experiment.plan().run(0, 1).unwrap_or_else(|problems| panic!("{problems}"));
        let journals = tempfile::tempdir().expect("a folder");
        let substrate = Namespaces::new(env!("CARGO_BIN_EXE_netrig"), Journals::at(journals.path()));
        let nobody = AtomicBool::new(false);
        let lab = substrate.lab(&run, sink, |_, _, _| {}, &nobody).expect("it is built");
        Self { lab, _journals: journals }
    }

    /// The name of a node's namespace.
    pub fn namespace(&self, node: &str) -> &str {
        self.lab.namespace(node).expect("it is there")
    }

    /// A command that starts a program on a node.
    pub fn inside(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.namespace(node), program]);
        command
    }

    /// Runs a program on a node, and returns its output. The program must succeed.
    pub fn run(&self, node: &str, program: &str, arguments: &[&str]) -> String {
        let output = self.inside(node, program).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a function on a thread in a node's namespace.
    pub fn on<T: Send>(&self, node: &str, job: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.namespace(node))).expect("it has a name");
        let job = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("we are root");
            job()
        };
        std::thread::scope(|scope| scope.spawn(job).join().expect("it ends"))
    }

    /// Removes the path. Returns the packet counts of its links, and the sink.
    pub fn close(self) -> (LabReport, S) {
        self.lab.close().expect("it is removed")
    }
}
