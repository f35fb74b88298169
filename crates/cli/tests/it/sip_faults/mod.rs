//! Faults that a relay plants between `netrig sip conform` and servers: each fault is detected, and each test purpose
//! detects at least one fault. FAULTS.md has the list.

mod faults;
mod passing;
mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;

use self::faults::{FAULTS, OF_CONNECTIONS, PlantedFault};
use self::relay::FaultyRelay;
use crate::common::kamailio::Kamailio;
use crate::common::sip_server::{PASSWORD_ENV, SipServer};
use crate::common::{as_json, words};

const ROLES: [&str; 4] = ["registrar", "proxy", "redirect", "uas"];

/// The verdicts of test purposes by their ids. Purposes without a verdict are left out.
type Verdicts = BTreeMap<String, String>;

/// A server in one role.
struct FaultSubject {
    role: &'static str,
    udp: SocketAddr,
    tcp: SocketAddr,
    /// The file of claims: the server claims all capabilities that it has without a fault.
    claims: tempfile::NamedTempFile,
    /// The server runs as long as this value exists.
    _server: ServerWithFaults,
}

enum ServerWithFaults {
    Kamailio(#[expect(dead_code, reason = "it is ended when it is dropped")] Kamailio),
    Own(#[expect(dead_code, reason = "it is ended when it is dropped")] SipServer),
}

impl FaultSubject {
    /// Starts Kamailio as a registrar, proxy or redirect server, or netrig's own user agent. `None` if Kamailio is not
    /// installed.
    fn start(role: &'static str, only: &[&str]) -> Option<Self> {
        if role == "uas" {
            // A call without an ACK is abandoned after 64 times T1.
            let server = SipServer::start(&words(
                "uas --listen udp:127.0.0.1:0 --listen tcp:127.0.0.1:0 --ring 1s --t1 100ms",
            ));
            let [udp, tcp] = ["udp", "tcp"].map(|transport| server.address(transport).parse().unwrap());
            return Some(Self::claiming(role, only, [udp, tcp], ServerWithFaults::Own(server)));
        }
        let defines = match role {
            "registrar" => "REGISTRAR",
            "proxy" => "PROXY",
            _ => "REDIRECT",
        };
        let server = Kamailio::start_with("conformance.cfg", &[defines])?;
        let address: SocketAddr = ([127, 0, 0, 1], server.port).into();
        Some(Self::claiming(role, only, [address; 2], ServerWithFaults::Kamailio(server)))
    }

    /// Writes the file of claims, so that a fault that removes a capability breaks a claim.
    fn claiming(
        role: &'static str,
        only: &[&str],
        [udp, tcp]: [SocketAddr; 2],
        server: ServerWithFaults,
    ) -> Self {
        let claims = tempfile::NamedTempFile::new().unwrap();
        let subject = Self { role, udp, tcp, claims, _server: server };
        let document = subject.document(&format!("udp:{udp}"), only);
        let rows = document["capabilities"].as_array().unwrap().iter();
        let shown = rows
            .filter(|row| row["shown"] == true)
            .map(|row| format!("{} = true\n", row["name"].as_str().unwrap()));
        std::fs::write(subject.claims.path(), shown.collect::<String>()).unwrap();
        subject
    }

    /// The verdicts of a run with a fault. `only` selects test purposes; if it is empty, all are tested.
    fn with_fault(&self, fault: &'static PlantedFault, only: &[&str]) -> Verdicts {
        if OF_CONNECTIONS.contains(&fault.name) {
            self.over_connections(fault.name, only)
        } else {
            self.over_datagrams(Some(fault), only)
        }
    }

    fn over_datagrams(&self, fault: Option<&'static PlantedFault>, only: &[&str]) -> Verdicts {
        let relay = FaultyRelay::over_datagrams(self.udp, fault);
        self.verdicts(&format!("udp:{}", relay.address), only)
    }

    /// The verdicts of a run over TCP. If `fault` is not the name of a fault, there is no fault.
    fn over_connections(&self, fault: &'static str, only: &[&str]) -> Verdicts {
        let relay = FaultyRelay::over_connections(self.tcp, fault);
        self.verdicts(&format!("tcp:{}", relay.address), only)
    }

    fn document(&self, target: &str, only: &[&str]) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
        command.args(["sip", "conform", target, "--role", self.role, "--domain", "example.com", "--json"]);
        command.args(["--jobs", "12", "--patience", "1500ms", "--silence", "500ms"]);
        command.args(["--password-env", PASSWORD_ENV]).env(PASSWORD_ENV, "zanzibar");
        command.arg("--capabilities").arg(self.claims.path());
        for id in only {
            command.args(["--only", id]);
        }
        let output = command.output().unwrap();
        as_json(&output)
    }

    fn verdicts(&self, target: &str, only: &[&str]) -> Verdicts {
        let document = self.document(target, only);
        let rows = document["purposes"].as_array().unwrap().iter();
        let verdict = |row: &Value| {
            let (id, verdict) = (row["id"].as_str()?, row["verdict"].as_str()?);
            // A deviation from a recommendation is reported as INCONC. Here it counts as detected.
            let is_deviation =
                row["observation"].as_str().is_some_and(|text| text.starts_with("only recommended"));
            Some((id.to_owned(), if is_deviation { "FAIL" } else { verdict }.to_owned()))
        };
        rows.filter_map(verdict).collect()
    }
}

/// The ids of test purposes that pass without the fault and fail with it. A purpose that has no verdict with the fault
/// does not detect it.
fn caught(without: &Verdicts, with: &Verdicts) -> BTreeSet<String> {
    let is = |verdicts: &Verdicts, id: &str, wanted: &str| {
        verdicts.get(id).is_some_and(|verdict| verdict == wanted)
    };
    without.keys().filter(|id| is(without, id, "PASS") && is(with, id, "FAIL")).cloned().collect()
}

/// Faults of a registrar, each with a test purpose that detects it.
const OF_REGISTRARS: &[(&str, &str)] = &[
    ("nothing-again", "REG-WAY-05"),
    ("no-to-tag", "REG-MSG-03"),
    ("another-from-tag", "REG-MSG-02"),
    ("one-via-only", "REG-MSG-01"),
    ("no-received", "REG-WAY-03"),
    ("refusal-succeeds", "REG-REMOVE-05"),
    ("refusal-is-another", "REG-BAD-09"),
    ("no-contact", "REG-BIND-02"),
    ("wrong-expires", "REG-EXPIRE-01"),
    ("bindings-stay", "REG-REMOVE-01"),
    ("bindings-never-made", "REG-BIND-02"),
    ("order-ignored", "REG-ORDER-01"),
    ("no-qop", "REG-AUTH-03"),
    ("any-password", "REG-AUTH-05"),
    ("wrong-contact", "REG-BIND-05"),
    ("mends-requests", "REG-BAD-01"),
    ("mends-requests", "REG-BAD-02"),
    ("bindings-of-all", "REG-BIND-11"),
    ("dies-of-the-strange", "REG-TORTURE-BCAST"),
];

/// Faults of a proxy, each with a test purpose that detects it.
const OF_PROXIES: &[(&str, &str)] = &[
    ("hops-not-counted", "PRX-FWD-03"),
    ("no-max-forwards", "PRX-FWD-10"),
    ("old-branch", "PRX-FWD-04"),
    ("one-branch", "PRX-FWD-17"),
    ("from-changed", "PRX-FWD-07"),
    ("unknown-fields-lost", "PRX-FWD-08"),
    ("body-lost", "PRX-FWD-09"),
    ("credentials-lost", "PRX-AUTH-05"),
    ("strict-record-route", "PRX-DLG-02"),
    ("forwarded-twice", "PRX-TRANS-02"),
    ("no-ack", "PRX-DLG-01"),
    ("no-bye", "PRX-DLG-03"),
    ("no-cancel", "PRX-TRANS-10"),
    ("another-cancel", "PRX-TRANS-11"),
    ("cancel-refused", "PRX-TRANS-09"),
    ("statuses-changed", "PRX-RSP-08"),
    ("failure-at-once", "PRX-FORK-03"),
    ("own-ack-lost", "PRX-TRANS-05"),
    ("no-ringing", "PRX-RSP-01"),
    ("contact-not-used", "PRX-FWD-02"),
    ("sender-lost", "PRX-FWD-19"),
    ("own-route-stays", "PRX-DLG-04"),
    ("to-changed", "PRX-FWD-07"),
    ("reasons-changed", "PRX-RSP-07"),
];

/// Faults of a redirect server, each with a test purpose that detects it.
const OF_REDIRECT_SERVERS: &[(&str, &str)] = &[
    ("bindings-stay", "RED-RED-09"),
    ("one-contact", "RED-RED-03"),
    ("repeated-responses", "RED-RED-11"),
    ("no-contact-parameters", "RED-RED-13"),
    ("only-calls-redirected", "RED-RED-07"),
    ("redirects-and-forwards", "RED-RED-05"),
    ("grammar-broken", "RED-MSG-04"),
    ("sent-by-ignored", "RED-WAY-01"),
    ("rport-ignored", "RED-WAY-02"),
    ("refusal-succeeds", "RED-RED-08"),
    ("another-redirection", "RED-RED-06"),
    ("empty-lines-end-it", "RED-MSG-11"),
];

/// Faults of a user agent, each with a test purpose that detects it.
const OF_USER_AGENTS: &[(&str, &str)] = &[
    ("cancel-refused", "UAS-CANCEL-01"),
    ("statuses-changed", "UAS-CANCEL-02"),
    ("strict-record-route", "UAS-CALL-03"),
    ("media-reversed", "UAS-SDP-02"),
    ("port-zero-ignored", "UAS-SDP-04"),
    ("not-reliable", "UAS-REL-01"),
    ("always-reliable", "UAS-REL-05"),
    ("timer-lengthened", "UAS-TIMER-01"),
    ("timer-always", "UAS-TIMER-05"),
    ("compact-names-unread", "UAS-MSG-06"),
    ("unknown-parameters-refused", "UAS-MSG-10"),
    ("more-than-the-body-refused", "UAS-WAY-06"),
    ("refusal-is-another", "UAS-CALL-11"),
    ("refusal-is-another", "UAS-SDP-09"),
    ("refusal-is-another", "UAS-MOD-06"),
    ("unknown-transaction-taken", "UAS-CALL-09"),
    ("no-min-expires", "UAS-TIMER-02"),
    ("nothing-again", "UAS-RING-02"),
    ("target-stays", "UAS-MOD-03"),
];

/// Checks that each test purpose passes without its fault and fails with it.
fn each_is_caught(role: &'static str, faults: &[(&str, &str)]) {
    let mut ids: Vec<&str> = faults.iter().map(|(_, id)| *id).collect();
    ids.dedup();
    let Some(subject) = FaultSubject::start(role, &ids) else { return };
    let without = subject.over_datagrams(None, &ids);
    let mut missed = Vec::new();
    for (name, id) in faults {
        let fault = FAULTS.iter().find(|fault| fault.name == *name).unwrap();
        let of_connections = OF_CONNECTIONS.contains(name).then(|| subject.over_connections("none", &[id]));
        let without = of_connections.as_ref().unwrap_or(&without);
        if !caught(without, &subject.with_fault(fault, &[id])).contains(*id) {
            missed.push((name, id));
        }
    }
    assert!(missed.is_empty(), "{missed:?}: {without:?}");
}

#[test]
fn planted_faults_of_a_registrar_are_caught() {
    each_is_caught("registrar", OF_REGISTRARS);
}

#[test]
fn planted_faults_of_a_proxy_are_caught() {
    each_is_caught("proxy", OF_PROXIES);
}

#[test]
fn planted_faults_of_a_redirect_server_are_caught() {
    each_is_caught("redirect", OF_REDIRECT_SERVERS);
}

#[test]
fn planted_faults_of_a_user_agent_are_caught() {
    each_is_caught("uas", OF_USER_AGENTS);
}

/// FAULTS.md lists all faults in the same order.
#[test]
fn the_faults_that_are_planted_are_those_of_the_list() {
    let listed =
        include_str!("FAULTS.md").lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(FAULTS.iter().map(|fault| fault.name).collect::<Vec<_>>(), listed.collect::<Vec<_>>());
}

mod validate {
    use super::*;

    const RUNS_WITHOUT_FAULT: usize = 3;

    /// The verdicts of the test purposes that pass in all of these runs. Prints the purposes that pass only in some of
    /// them.
    fn steady(runs: impl Iterator<Item = Verdicts>) -> Verdicts {
        let runs: Vec<Verdicts> = runs.collect();
        let passes = |run: &Verdicts, id: &str| run.get(id).is_some_and(|verdict| verdict == "PASS");
        let mut steady = runs[0].clone();
        steady.retain(|id, _| {
            let count = runs.iter().filter(|run| passes(run, id)).count();
            if count > 0 && count < runs.len() {
                println!("{id} passes in {count} of {} runs without a fault", runs.len());
            }
            count == runs.len()
        });
        steady
    }

    /// All test purposes with all faults.
    #[test]
    #[ignore = "an hour: make validate runs it"]
    fn each_purpose_catches_a_fault_and_each_fault_is_caught() {
        let mut missed: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        let mut idle = BTreeSet::new();
        for role in ROLES {
            let Some(subject) = FaultSubject::start(role, &[]) else { return };
            // A purpose that fails occasionally without a fault would seem to detect every fault.
            let datagrams = steady((0..RUNS_WITHOUT_FAULT).map(|_| subject.over_datagrams(None, &[])));
            let connections = steady((0..RUNS_WITHOUT_FAULT).map(|_| subject.over_connections("none", &[])));
            let mut passing: BTreeSet<String> = datagrams.keys().chain(connections.keys()).cloned().collect();
            println!(
                "{role}: {} purposes pass in {RUNS_WITHOUT_FAULT} of {RUNS_WITHOUT_FAULT} runs",
                passing.len()
            );
            for fault in FAULTS {
                let is_of_connections = OF_CONNECTIONS.contains(&fault.name);
                let without = if is_of_connections { &connections } else { &datagrams };
                let mut found = caught(without, &subject.with_fault(fault, &[]));
                if !found.is_empty() {
                    // These purposes are tested again without the others, so that the fault is the cause of the failure
                    // and not the load or the timing.
                    let ids: Vec<&str> = found.iter().map(String::as_str).collect();
                    let again = caught(without, &subject.with_fault(fault, &ids));
                    found.retain(|id| again.contains(id));
                }
                println!("{role} {}: {}", fault.name, found.iter().cloned().collect::<Vec<_>>().join(" "));
                if !found.is_empty() {
                    missed.remove(fault.name);
                }
                passing.retain(|id| !found.contains(id));
            }
            idle.extend(passing);
        }
        assert!(missed.is_empty() && idle.is_empty(), "not caught: {missed:?}; caught nothing: {idle:?}");
    }
}
