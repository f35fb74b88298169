//! The shipped studies. They can be run by name from any folder.

use netrig_core::Duration;
use netrig_experiment::{Diagnostics, FileReader, ScenarioFault, ScenarioText, with_files};
use netrig_traffic::TracedDatagram;

/// A study's folder, embedded.
pub struct Study {
    /// Its name: `link-down`.
    pub name: &'static str,
    /// Its subject, in a line.
    pub title: &'static str,
    /// Its experiments by the name after the slash. The experiment named `experiment` is run if there is no slash.
    pub experiments: &'static [(&'static str, &'static str)],
    /// The values from the paper's text.
    pub paper: Option<&'static str>,
    /// The differences from the paper, with reasons.
    pub readme: Option<&'static str>,
    /// Files for the programs of its experiments, by name.
    pub files: &'static [(&'static str, &'static str)],
}

/// The text of a file in a study's folder.
macro_rules! text {
    ($study:literal, $($file:literal),+) => {
        include_str!(concat!("../../../studies/", $study, "/", $($file),+))
    };
}

/// Makes studies from their names, titles and files. `paper` marks studies of a paper.
macro_rules! studies {
    ($(
        $study:literal: $title:literal
        $(paper $paper:literal $readme:literal)?
        experiments $($experiment:literal)+
        $(files $($file:literal)+)?;
    )+) => {
        &[$(Study {
            name: $study,
            title: $title,
            experiments: &[$(($experiment, text!($study, $experiment, ".toml"))),+],
            paper: [$(Some(text!($study, $paper)),)? None][0],
            readme: [$(Some(text!($study, $readme)),)? None][0],
            files: &[$($(($file, text!($study, $file))),+)?],
        }),+]
    };
}

/// All shipped studies.
pub static STUDIES: &[Study] = studies! {
    "access-speed": "What the load, the window and the MTU of a terminal take away from its line"
        paper "paper.toml" "README.md"
        experiments "experiment" "asymmetric" "media" "mtu-window" "rate" "terminal" "window";
    "diffserv": "Premium against best-effort service over a congested wide-area network"
        paper "paper.toml" "README.md"
        experiments "experiment" "ef-af-be" "fq-codel" "policer-shaper" "reservable" "rtt-factors"
            "transfer" "video";
    "link-down": "Web traffic over TCP, SCTP and multi-homed SCTP while a link is down"
        paper "paper.toml" "README.md"
        experiments "experiment" "failover" "kernel" "profiles" "run-length" "tcp-variants" "unsaturated";
    "mm1": "One queue, held to its theory: the smallest experiment"
        experiments "experiment";
    "sctp-mobile": "File transfer over TCP and SCTP from a phone on a lossy wireless network"
        paper "paper.toml" "README.md"
        experiments "experiment" "buffers" "chunks" "crossover" "file-size" "head-of-line" "kernel"
            "loss-law" "phones" "receive-window";
    "sip-server": "Registrations, calls and redirections of a SIP server: delays, success, and where it ends"
        paper "paper.toml" "README.md"
        experiments "experiment" "avalanche" "connection-limit" "connections" "database" "loss" "overload"
            "own" "proxy-effects" "proxy-security" "registrar-effects"
        files "common.cfg" "mkcert.sh" "mkdb-postgres.sh" "mkdb.sh" "postgres.sh" "proxy.cfg" "redirect.cfg"
            "registrar.cfg";
};

impl Study {
    /// The names under which its experiments run: `link-down`, `link-down/failover`.
    pub fn names(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.experiments.iter().map(|(name, text)| match *name {
            "experiment" => (self.name.to_owned(), *text),
            sibling => (format!("{}/{sibling}", self.name), *text),
        })
    }

    /// The text of its experiment called `name`, including the files that the experiment names.
    ///
    /// # Errors
    /// If the experiment names a file that the study does not have. A test makes sure that shipped studies have their
    /// files.
    pub fn whole(&self, name: &str, text: &str) -> Result<String, Diagnostics> {
        with_files(name, text, &self)
    }
}

const NO_FILE: &str = "the study has no such file";

/// Of the files that an experiment can name, studies have only those for programs.
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

/// Whether a text, including the files that it names, is exactly that of a shipped experiment. The programs of shipped
/// experiments need no permission.
pub fn is_shipped(text: &str) -> bool {
    // The first line is compared first, because it is a comment that does not depend on the named files.
    let begins_as = |own: &str| own.lines().next() == text.lines().next();
    let same = |study: &Study, name: &str, own: &str| {
        begins_as(own) && study.whole(name, own).is_ok_and(|own| own == text)
    };
    STUDIES.iter().any(|study| study.names().any(|(name, own)| same(study, &name, own)))
}

/// The experiment called `name`, and the study to which it belongs.
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
