//! Substitutes placeholders in the arguments and files of a program, and creates the program's folder.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use netrig_experiment::{RunError, Scenario};

use super::planned::PlannedProgram;

/// The values of `{folder}`, `{address}` and `{address:NODE}`.
pub(super) struct Placeholders<'a> {
    folder: &'a Path,
    own: Option<IpAddr>,
    addresses: BTreeMap<&'a str, IpAddr>,
}

impl<'a> Placeholders<'a> {
    pub fn of(scenario: &'a Scenario, node: usize, folder: &'a Path) -> Self {
        let address = |node: usize| (0..scenario.links.len()).find_map(|link| scenario.address(node, link));
        let named = scenario.nodes.iter().enumerate();
        let addresses = named.filter_map(|(place, node)| Some((node.name.as_str(), address(place)?)));
        Self { folder, own: address(node), addresses: addresses.collect() }
    }

    pub fn substitute(&self, text: &str) -> Result<String, RunError> {
        let mut rest = text;
        let mut out = String::new();
        while let Some((before, after)) = rest.split_once('{') {
            out += before;
            let (name, behind) = after.split_once('}').unwrap_or((after, ""));
            let value = match (name, name.strip_prefix("address:")) {
                ("folder", _) => Some(self.folder.display().to_string()),
                ("address", _) => self.own.map(|address| address.to_string()),
                (_, Some(node)) => {
                    Some(self.addresses.get(node).map(IpAddr::to_string).ok_or_else(|| {
                        RunError::Failed(format!(
                            "`{{{name}}}` in a program: no node `{node}` has an address"
                        ))
                    })?)
                }
                _ => None,
            };
            match value {
                Some(value) => (out, rest) = (out + &value, behind),
                // A brace that does not start a placeholder is kept.
                None => {
                    out.push('{');
                    rest = after;
                }
            }
        }
        Ok(out + rest)
    }

    pub fn own_address(&self) -> Option<IpAddr> {
        self.own
    }

    /// The arguments of a command after substitution, without the program.
    pub fn arguments(&self, words: &[String]) -> Result<Vec<String>, RunError> {
        words.iter().skip(1).map(|argument| self.substitute(argument)).collect()
    }

    /// The command with these words, after substitution. It runs `executable` in the program's folder, and its output
    /// is piped.
    pub fn command(&self, executable: &Path, words: &[String]) -> Result<Command, RunError> {
        let mut command = Command::new(executable);
        command.args(self.arguments(words)?).current_dir(self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// Creates the program's folder and its files.
    pub fn create_folder(&self, planned: &PlannedProgram) -> Result<(), RunError> {
        let at = |name: &str| self.folder.join(name);
        let written = |path: PathBuf, made: std::io::Result<()>| {
            made.map_err(|error| RunError::Failed(format!("cannot write {}: {error}", path.display())))
        };
        written(self.folder.to_owned(), std::fs::create_dir(self.folder))?;
        for name in &planned.folders {
            written(at(name), std::fs::create_dir(at(name)))?;
        }
        for (name, text) in &planned.program.files {
            written(at(name), std::fs::write(at(name), self.substitute(text)?))?;
        }
        for (name, length) in &planned.zeros {
            let made = std::fs::File::create(at(name)).and_then(|file| file.set_len(*length));
            written(at(name), made)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Placeholders<'_> {
        let address: IpAddr = [10, 0, 0, 2].into();
        Placeholders { folder, own: Some(address), addresses: [("proxy", [10, 0, 0, 9].into())].into() }
    }

    #[test]
    fn what_stands_for_folders_and_addresses() {
        let folder = PathBuf::from("/tmp/x");
        let put = |text: &str| names(&folder).substitute(text).unwrap();
        assert_eq!(put("{folder}/a {address}:{address:proxy}"), "/tmp/x/a 10.0.0.2:10.0.0.9");
        // Braces that do not start a placeholder are kept.
        assert_eq!(put("route { drop; } {x} {"), "route { drop; } {x} {");
        assert!(names(&folder).substitute("{address:none}").is_err());
    }
}
