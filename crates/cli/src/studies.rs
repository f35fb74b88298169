//! The shipped studies, which run by name from any folder.

use netrig_core::Duration;
use netrig_experiment::{Diagnostics, FileReader, ScenarioFault, ScenarioText, with_files};
use netrig_traffic::TracedDatagram;

/// A study's folder, embedded.
pub struct Study {
    /// Its name: `link-down`.
    pub name: &'static str,
    /// Its subject, in a line.
    pub title: &'static str,
    /// Its experiments by the name after the slash; `experiment` is the one that the bare name runs.
    pub experiments: &'static [(&'static str, &'static str)],
    /// The values from the paper's text.
    pub paper: Option<&'static str>,
    /// The differences from the paper, with reasons.
    pub readme: Option<&'static str>,
    /// Files that its experiments give to programs, by name.
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("../../../studies/", $path))
    };
}

/// All of them.
pub static STUDIES: &[Study] = &[
    Study {
        name: "access-speed",
        title: "What the load, the window and the MTU of a terminal take away from its line",
        experiments: &[
            ("experiment", text!("access-speed/experiment.toml")),
            ("asymmetric", text!("access-speed/asymmetric.toml")),
            ("media", text!("access-speed/media.toml")),
            ("mtu-window", text!("access-speed/mtu-window.toml")),
            ("rate", text!("access-speed/rate.toml")),
            ("terminal", text!("access-speed/terminal.toml")),
            ("window", text!("access-speed/window.toml")),
        ],
        paper: Some(text!("access-speed/paper.toml")),
        readme: Some(text!("access-speed/README.md")),
        files: &[],
    },
    Study {
        name: "diffserv",
        title: "Premium against best-effort service over a congested wide-area network",
        experiments: &[
            ("experiment", text!("diffserv/experiment.toml")),
            ("ef-af-be", text!("diffserv/ef-af-be.toml")),
            ("fq-codel", text!("diffserv/fq-codel.toml")),
            ("policer-shaper", text!("diffserv/policer-shaper.toml")),
            ("reservable", text!("diffserv/reservable.toml")),
            ("rtt-factors", text!("diffserv/rtt-factors.toml")),
            ("transfer", text!("diffserv/transfer.toml")),
            ("video", text!("diffserv/video.toml")),
        ],
        paper: Some(text!("diffserv/paper.toml")),
        readme: Some(text!("diffserv/README.md")),
        files: &[],
    },
    Study {
        name: "link-down",
        title: "Web traffic over TCP, SCTP and multi-homed SCTP while a link is down",
        experiments: &[
            ("experiment", text!("link-down/experiment.toml")),
            ("failover", text!("link-down/failover.toml")),
            ("kernel", text!("link-down/kernel.toml")),
            ("profiles", text!("link-down/profiles.toml")),
            ("run-length", text!("link-down/run-length.toml")),
            ("tcp-variants", text!("link-down/tcp-variants.toml")),
            ("unsaturated", text!("link-down/unsaturated.toml")),
        ],
        paper: Some(text!("link-down/paper.toml")),
        readme: Some(text!("link-down/README.md")),
        files: &[],
    },
    Study {
        name: "mm1",
        title: "One queue, held to its theory: the smallest experiment",
        experiments: &[("experiment", text!("mm1/experiment.toml"))],
        paper: None,
        readme: None,
        files: &[],
    },
    Study {
        name: "sctp-mobile",
        title: "File transfer over TCP and SCTP from a phone on a lossy wireless network",
        experiments: &[
            ("experiment", text!("sctp-mobile/experiment.toml")),
            ("buffers", text!("sctp-mobile/buffers.toml")),
            ("chunks", text!("sctp-mobile/chunks.toml")),
            ("crossover", text!("sctp-mobile/crossover.toml")),
            ("file-size", text!("sctp-mobile/file-size.toml")),
            ("head-of-line", text!("sctp-mobile/head-of-line.toml")),
            ("kernel", text!("sctp-mobile/kernel.toml")),
            ("loss-law", text!("sctp-mobile/loss-law.toml")),
            ("phones", text!("sctp-mobile/phones.toml")),
            ("receive-window", text!("sctp-mobile/receive-window.toml")),
        ],
        paper: Some(text!("sctp-mobile/paper.toml")),
        readme: Some(text!("sctp-mobile/README.md")),
        files: &[],
    },
    Study {
        name: "sip-server",
        title: "Registrations, calls and redirections of a SIP server: delays, success, and where it ends",
        experiments: &[
            ("experiment", text!("sip-server/experiment.toml")),
            ("avalanche", text!("sip-server/avalanche.toml")),
            ("connection-limit", text!("sip-server/connection-limit.toml")),
            ("connections", text!("sip-server/connections.toml")),
            ("database", text!("sip-server/database.toml")),
            ("loss", text!("sip-server/loss.toml")),
            ("overload", text!("sip-server/overload.toml")),
            ("own", text!("sip-server/own.toml")),
            ("proxy-effects", text!("sip-server/proxy-effects.toml")),
            ("proxy-security", text!("sip-server/proxy-security.toml")),
            ("registrar-effects", text!("sip-server/registrar-effects.toml")),
        ],
        paper: Some(text!("sip-server/paper.toml")),
        readme: Some(text!("sip-server/README.md")),
        files: &[
            ("common.cfg", text!("sip-server/common.cfg")),
            ("mkcert.sh", text!("sip-server/mkcert.sh")),
            ("mkdb-postgres.sh", text!("sip-server/mkdb-postgres.sh")),
            ("mkdb.sh", text!("sip-server/mkdb.sh")),
            ("postgres.sh", text!("sip-server/postgres.sh")),
            ("proxy.cfg", text!("sip-server/proxy.cfg")),
            ("redirect.cfg", text!("sip-server/redirect.cfg")),
            ("registrar.cfg", text!("sip-server/registrar.cfg")),
        ],
    },
];

impl Study {
    /// The names under which its experiments run: `link-down`, `link-down/failover`.
    pub fn names(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.experiments.iter().map(|(name, text)| match *name {
            "experiment" => (self.name.to_owned(), *text),
            sibling => (format!("{}/{sibling}", self.name), *text),
        })
    }
}

impl Study {
    /// The text of one of its experiments, called `name`, with the files that it names.
    ///
    /// # Errors
    /// If it names a file that the study does not have: a defect, which a test finds.
    pub fn whole(&self, name: &str, text: &str) -> Result<String, Diagnostics> {
        with_files(name, text, &self)
    }
}

const NO_FILE: &str = "the study has no such file";

/// Studies have files of programs only.
impl FileReader for &Study {
    fn text(&self, name: &str) -> Result<String, String> {
        let file = self.files.iter().find(|(known, _)| *known == name);
        file.map(|(_, text)| (*text).to_owned()).ok_or_else(|| NO_FILE.to_owned())
    }

    fn datagrams(&self, _: &str) -> Result<Vec<TracedDatagram>, String> {
        Err(NO_FILE.to_owned())
    }

    fn moments(&self, _: &str) -> Result<Vec<Duration>, String> {
        Err(NO_FILE.to_owned())
    }

    fn check(&self, _: &ScenarioText) -> Result<(), ScenarioFault> {
        Ok(())
    }
}

/// Whether a text, with the files that it names, is exactly that of a shipped experiment, whose programs are netrig's own.
pub fn is_shipped(text: &str) -> bool {
    // The first line of a file is a comment and names no files.
    let begins_as = |own: &str| own.lines().next() == text.lines().next();
    let same = |study: &Study, name: &str, own: &str| {
        begins_as(own) && study.whole(name, own).is_ok_and(|own| own == text)
    };
    STUDIES.iter().any(|study| study.names().any(|(name, own)| same(study, &name, own)))
}

/// The experiment called `name`, with the study that it belongs to.
pub fn find(name: &str) -> Option<(&'static Study, &'static str)> {
    STUDIES
        .iter()
        .find_map(|study| study.names().find(|(known, _)| known == name).map(|(_, text)| (study, text)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Every file of a study is embedded.
    #[test]
    fn every_file_of_every_study_is_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
        let mut found = vec![];
        for study in std::fs::read_dir(folder).expect("the studies are there") {
            let study = study.expect("a readable folder").path();
            for file in std::fs::read_dir(&study).expect("a readable folder") {
                let file = file.expect("a readable file").path();
                let stem = file.file_stem().and_then(|s| s.to_str()).expect("a name").to_owned();
                if file.extension().is_some_and(|e| e == "toml") && stem != "paper" {
                    found
                        .push((study.file_name().and_then(|s| s.to_str()).expect("a name").to_owned(), stem));
                }
            }
        }
        found.sort();
        let mut embedded: Vec<_> = STUDIES
            .iter()
            .flat_map(|study| {
                study.experiments.iter().map(|(name, _)| (study.name.to_owned(), (*name).to_owned()))
            })
            .collect();
        embedded.sort();
        assert_eq!(found, embedded);
    }

    #[test]
    fn only_what_is_shipped_is_shipped() {
        for study in STUDIES {
            for (name, text) in study.names() {
                let whole = study.whole(&name, text).unwrap_or_else(|problems| panic!("{problems}"));
                assert!(is_shipped(&whole), "{name}");
                assert!(!is_shipped(&(whole + "\n")), "{name}");
            }
        }
    }

    #[test]
    fn a_study_runs_by_its_bare_name() {
        let (study, text) = find("link-down").expect("it is shipped");
        assert!(study.name == "link-down" && text.contains("name = \"link-down\""));
        assert!(find("link-down/failover").is_some() && find("link-down/nothing").is_none());
    }
}
