//! The arguments of `netrig sip load`.

use clap::Args;
use netrig_sip::settings::LoadSettings;
use netrig_sip_tester::request::{LoadPeriod, LoadRequest, TesterSettings, with_scenario};

use crate::commands::sip::environment::EnvironmentArguments;
use crate::commands::sip::keeping::{KeepArguments, RecordArguments};
use crate::commands::sip::scenario::LoadScriptArguments;
use crate::commands::sip::watching::Watching;
use crate::failure::Failure;
use crate::typed::Typed;

/// `netrig sip load`.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    pub tester: Typed<TesterSettings>,
    #[command(flatten)]
    pub load: Typed<LoadSettings>,
    #[command(flatten)]
    pub period: Typed<LoadPeriod>,
    #[command(flatten)]
    pub watching: Watching,
    #[command(flatten)]
    pub environment: EnvironmentArguments,
    #[command(flatten)]
    pub keeping: KeepArguments,
    #[command(flatten)]
    pub records: RecordArguments,
    #[command(flatten)]
    pub script: LoadScriptArguments,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub json: bool,
}

impl Load {
    /// The settings: values of the command line, else those of the file of settings, else defaults.
    pub fn settings(&self) -> Result<(LoadRequest, LoadPeriod), Failure> {
        let (mut tester, mut load, mut period) =
            (self.tester.clone(), self.load.clone(), self.period.clone());
        self.environment.read("load", &mut [&mut tester, &mut load, &mut period])?;
        load.settings = with_scenario(load.settings);
        self.environment.save("load", &[&tester, &load, &period])?;
        Ok((LoadRequest { load: load.settings, tester: tester.settings }, period.settings))
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};
    use netrig_core::{Duration, Seeds};
    use netrig_sip::load::Plan;
    use serde_json::Value;

    use super::*;
    use crate::arguments::{self, Arguments};
    use crate::commands::sip::Kind;

    /// Keys of experiment files without a flag of `netrig sip load`, each with the reason.
    const NO_FLAGS: [(&str, &str); 14] = [
        ("conform", "`netrig sip conform` tests a server"),
        ("scenario_text", "the file of `--scenario-file` has it"),
        ("values_file", "scenarios of SIPp call it `--inject`"),
        ("values_text", "the file of `--inject` has it"),
        ("keys", "each is a `--key`"),
        ("stages", "each is a `--stage`"),
        ("moments", "the file of `--trace` has them"),
        ("population", "idle users send nothing"),
        ("password", "other users could read it in the list of processes: `--password-env`"),
        ("secure", "the target says `tls:`"),
        ("port", "the target has it"),
        ("location", "the target is a name: `--zone` and `--resolver`"),
        ("threads", "`--cpus`"),
        ("server", "the load has none of its own"),
    ];

    /// A subcommand by its path.
    fn command(path: &[&str]) -> Command {
        let mut all = Arguments::command();
        all.build();
        path.iter().fold(all, |command, name| command.find_subcommand(name).unwrap().clone())
    }

    fn has(command: &Command, key: &str) -> bool {
        let flag = key.replace('_', "-");
        command.get_arguments().any(|argument| argument.get_long() == Some(&flag))
    }

    /// The names that a flag accepts as values.
    fn typed(command: &Command, flag: &str) -> Vec<String> {
        let flag = command.get_arguments().find(|argument| argument.get_long() == Some(flag)).unwrap();
        sorted(flag.get_possible_values().iter().map(|word| word.get_name().to_owned()).collect())
    }

    fn sorted(mut words: Vec<String>) -> Vec<String> {
        words.sort();
        words
    }

    /// The keys of a table in experiment files.
    fn keys(schema: &Value, of: &str) -> Vec<String> {
        schema["$defs"][of]["properties"].as_object().unwrap().keys().cloned().collect()
    }

    /// The names that a key of experiment files accepts as values.
    fn words(schema: &Value, of: &str) -> Vec<String> {
        let all = schema["$defs"][of]["anyOf"].as_array().unwrap().iter();
        sorted(all.filter_map(|one| one["const"].as_str()).map(str::to_owned).collect())
    }

    #[test]
    fn a_key_of_a_file_is_the_flag_of_that_name_and_has_its_words() {
        let schema = serde_json::to_value(netrig_experiment::schema()).unwrap();
        let load = command(&["sip", "load"]);
        for key in keys(&schema, "LoadSettings") {
            let is_none = NO_FLAGS.iter().any(|(none, _)| *none == key);
            assert_ne!(has(&load, &key), is_none, "{key}");
        }
        for (flag, of) in [
            ("scenario", "ScenarioName"),
            ("callee", "Called"),
            ("connections", "Connections"),
            ("large-requests", "LargeRequests"),
            ("lookup", "LookupSettings"),
        ] {
            assert_eq!(typed(&load, flag), words(&schema, of), "{flag}");
        }
        let roles = words(&schema, "ServerRole");
        let servers: Vec<_> = roles.iter().map(|role| command(&["sip", "serve", role])).collect();
        for key in keys(&schema, "ServerSettings").iter().filter(|key| *key != "role") {
            assert!(servers.iter().any(|server| has(server, key)), "{key}");
        }
        assert_eq!(typed(&command(&["sip", "serve", "registrar"]), "digest"), words(&schema, "Digest"));
    }

    /// The plan that results from a command line.
    fn plan_of(flags: &[&str]) -> Plan {
        let words = ["netrig", "sip", "load", "udp:127.0.0.1", "--seed", "1"].iter().chain(flags);
        let arguments::Command::Sip(sip) = Arguments::try_parse_from(words).unwrap().command else {
            panic!()
        };
        let Kind::Load(load) = &sip.kind else { panic!() };
        let (request, period) = load.settings().unwrap();
        request.order(&period).unwrap().plan
    }

    /// The settings of a plan as text, without its seed.
    fn described(plan: &Plan) -> String {
        let Plan { work, mix, pace, hold, users, count, callee, options, .. } = plan;
        let Plan { description, domain, expires, timing, calls, .. } = plan;
        format!(
            "{work:?} {mix:?} {pace:?} {hold:?} {users} {count:?} {callee:?} {options:?} {description} {domain:?} \
             {expires} {timing:?} {calls}"
        )
    }

    #[test]
    fn a_value_means_the_same_on_the_command_line_and_in_a_file() {
        let trace = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(trace.path(), "0.5\n1.5\n").unwrap();
        let trace = format!("--trace={}", trace.path().display());
        let own = tempfile::NamedTempFile::new().unwrap();
        let message = "step = \"bye\"\nset = { Reason = \"SIP;cause=200\" }";
        std::fs::write(own.path(), format!("[[messages]]\n{message}\n")).unwrap();
        let own = format!("--messages={}", own.path().display());
        let message = format!("rate = 1\nmessages = [{{ {} }}]", message.replace('\n', ", "));
        for (flags, keys) in [
            (&["--interval=300ms"][..], "interval = \"300 ms\""),
            (
                &["--interval=300ms", "--arrivals=burst:10"],
                "interval = \"300 ms\"\narrivals = { burst = 10 }",
            ),
            (&["--rate=40/s", "--arrivals=constant"], "rate = 40\narrivals = \"constant\""),
            (
                &["--stage=5/s,10s", "--stage=5/s..9/s,1s"],
                "stages = [{ rate = 5, for = \"10 s\" }, { rate = 5, to = 9, for = \"1 s\" }]",
            ),
            (&["--pause=10s"], "pause = \"10 s\""),
            (&["--pause=exponential:10s"], "pause = { exponential = \"10 s\" }"),
            (&["--pause=uniform:1s..5s"], "pause = { uniform = { min = \"1 s\", max = \"5 s\" } }"),
            (&[&trace], "moments = [\"500 ms\", \"1500 ms\"]"),
            (
                &["--rate=1/s", "--scenario=register", "--expires=2h"],
                "rate = 1\nscenario = \"register\"\nexpires = \"2 h\"",
            ),
            (
                &["--rate=1/s", "--mix=call=70%,busy=30%"],
                "rate = 1\nmix = { call = \"70 %\", busy = \"30 %\" }",
            ),
            (&["--rate=1/s", "--callee=server"], "rate = 1\ncallee = \"server\""),
            (
                &["--rate=1/s", "--callee=own", "--ring=1s", "--contacts=2", "--provisionals=3"],
                "rate = 1\ncallee = \"own\"\nring = \"1 s\"\ncontacts = 2\nprovisionals = 3",
            ),
            (&["--rate=1/s", "--session-expires=90s"], "rate = 1\nsession_expires = \"90 s\""),
            (&["--rate=1/s", &own], &message),
            (
                &["--rate=1/s", "--follow-redirects", "--retries=3", "--large-requests=tcp"],
                "rate = 1\nfollow_redirects = true\nretries = 3\nlarge_requests = \"tcp\"",
            ),
            (&["--rate=1/s", "--hold=30s"], "rate = 1\nhold = \"30 s\""),
            (
                &["--rate=1/s", "--hold=lognormal:90s,1"],
                "rate = 1\nhold = { lognormal = { mean = \"90 s\", sigma = 1 } }",
            ),
            (
                &["--rate=1/s", "--scenario=cancel", "--patience=2s", "--sdp=1KB", "--domain=example.com"],
                "rate = 1\nscenario = \"cancel\"\npatience = \"2 s\"\nsdp = \"1 KB\"\ndomain = \"example.com\"",
            ),
            (
                &["--rate=1/s", "--users=7", "--count=9", "--t1=1s", "--t2=2s", "--t4=3s"],
                "rate = 1\nusers = 7\ncount = 9\nt1 = \"1 s\"\nt2 = \"2 s\"\nt4 = \"3 s\"",
            ),
        ] {
            let scenario =
                if keys.contains("scenario") || keys.contains("mix") { "" } else { "scenario = \"call\"" };
            let text = format!("{keys}\n{scenario}\nserver = \"program\"");
            let settings: LoadSettings = toml::from_str(&text).unwrap();
            settings.check_values().unwrap();
            let plan = settings.plan("users", &Seeds::new(1), Duration::from_secs(10)).unwrap();
            assert_eq!(described(&plan_of(flags)), described(&plan), "{keys}");
        }
    }
}
