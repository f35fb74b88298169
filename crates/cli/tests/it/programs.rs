//! Programs of nodes: preparation, processors, monitoring and counters; and the servers of the study `sip-server`,
//! which an experiment file starts. The tests need root on Linux; otherwise each test prints that it was skipped.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use netrig_test_support::{ExperimentText, skip_unless};
use serde_json::Value;

use crate::common::machine::{can, folder};
use crate::common::{netrig, text, time_lines};

/// A folder with an experiment: a tester and a server on a cable, the text `rest`, and responses, each with its name,
/// its subject and its metric.
fn experiment(duration: &str, rest: &str, responses: &[(&str, &str, &str)]) -> tempfile::TempDir {
    let file = ExperimentText::new("served", duration)
        .table("replications", "count = 1")
        .link("lan", "tester server", r#"kind = "direct""#)
        .flow(
            "beside",
            "tester server",
            r#"application = { kind = "cbr", interval = "20 ms", size = "100 B" }"#,
        )
        .response("loss", "flow.beside", "datagram_loss");
    let file = responses.iter().fold(file, |file, (name, of, metric)| file.response(name, of, metric));
    folder("served", &file.text(rest).build())
}

fn run(folder: &Path, more: &[&str]) -> (Option<i32>, Value, String) {
    let arguments = ["run", "served.toml", "--on", "netns", "--json", "--allow-programs"];
    let ended = netrig(folder, &[&arguments[..], more].concat());
    let document = serde_json::from_str(&text(&ended.stdout)).unwrap_or(Value::Null);
    (ended.status.code(), document, text(&ended.stderr))
}

fn value(document: &Value, response: &str) -> Option<f64> {
    document["points"][0]["responses"][response]["runs"][0]["value"].as_f64()
}

fn nothing_is_left(folder: &Path) {
    let left = text(&netrig(folder, &["doctor"]).stdout);
    assert!(!left.contains("left behind"), "{left}");
}

/// Checks the kernel's processor sets of the program, its child, and the agent, which is in the node's namespace when
/// it starts.
#[test]
fn what_runs_on_a_node_is_bound_to_its_processors() {
    skip_unless!(can(&[]));
    let script = r#"
        sh -c 'grep Cpus_allowed_list /proc/self/status; true'
        for process in /proc/[0-9]*; do
            if [ "$(readlink $process/ns/net)" = "$(readlink /proc/self/ns/net)" ] &&
                tr '\0' ' ' <$process/cmdline | grep -q ' agent $'; then
                sed -n 's/Cpus_allowed_list/agent/p' $process/status
            fi
        done
        echo ready; exec sleep 1000"#;
    let folder = experiment(
        "500 ms",
        &format!(
            "[node.tester]\n[node.server]\ncpus = [0]\n\
             application = {{ kind = \"program\", command = [\"sh\", \"-c\", '''{script}'''], ready = \"says:ready\" }}\n"
        ),
        &[],
    );
    let (code, document, told) = run(folder.path(), &[]);
    assert_eq!(code, Some(0), "{told}");
    let line = time_lines(folder.path());
    let bound: Vec<_> =
        line.lines().filter_map(|line| line.split_once("sh: ")).map(|(_, said)| said).collect();
    let lists = |who: &str| -> Vec<&str> {
        let said = bound.iter().filter_map(|said| said.strip_prefix(who)?.strip_prefix(':'));
        said.map(str::trim).collect()
    };
    assert_eq!((lists("Cpus_allowed_list"), lists("agent")), (vec!["0"], vec!["0"]), "{line} {document:#}");

    let file = folder.path().join("served.toml");
    let text_of_file = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(&file, text_of_file.replace("cpus = [0]", "cpus = [1023]")).expect("it can be written");
    let (code, document, told) = run(folder.path(), &[]);
    assert_eq!(code, Some(0), "{told}");
    let why = document["points"][0]["why"].as_str().unwrap_or_default();
    assert!(why.contains("node `server` is bound to processor 1023"), "{document:#}");
}

#[test]
fn in_virtual_time_processors_bind_nothing() {
    let folder = experiment("500 ms", "[node.tester]\n[node.server]\ncpus = [0, 1023]\n", &[]);
    let ended = netrig(folder.path(), &["run", "served.toml", "--on", "sim", "--traces"]);
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    let line = time_lines(folder.path());
    assert!(line.contains("`cpus` of node server have no effect here"), "{line}");
    let file = folder.path().join("served.toml");
    let whole = std::fs::read_to_string(&file).expect("it was written");
    for (wrong, why) in [("[1, 1]", "processor 1 is named twice"), ("[1024]", "there is no processor 1024")] {
        std::fs::write(&file, whole.replace("[0, 1023]", wrong)).expect("it can be written");
        let told = text(&netrig(folder.path(), &["check", "served.toml"]).stderr);
        assert!(told.contains(why), "{told}");
    }
}

/// One program computes during the whole run, writes counters to a file, and does not read its socket. Another program
/// sends it more datagrams than the socket can hold.
#[test]
fn programs_are_prepared_watched_and_counted() {
    skip_unless!(can(&["python3"]));
    let served = r#"
[node.tester]
application = { kind = "program", command = ["python3", "send.py", "{address:server}"], files = { "send.py" = { file = "send.py" } } }
[node.server]
application = { kind = "program", command = ["python3", "serve.py"], ready = "udp:7000", before = [["sh", "-c", "echo prepared in $PWD; echo 7 > begun"], ["sh", "-c", "test -f begun"]], files = { "serve.py" = { file = "serve.py" } }, counters = { command = ["cat", "{folder}/counts"], names = ["turns", "a.b:c"], every = "200 ms" } }
"#;
    let responses = [
        ("cpu", "node.server", "program_cpu"),
        ("cpu_max", "node.server", "program_cpu_max"),
        ("memory", "node.server", "program_memory"),
        ("queue", "node.server", "program_udp_queue_max"),
        ("drops", "node.server", "program_udp_drops"),
        ("turns", "node.server.counter.turns", "counter_growth"),
        ("turns_in_time", "node.server.counter.turns", "counter_rate"),
        ("still", "node.server.counter.a.b:c", "counter_growth"),
    ];
    let folder = experiment("2 s", served, &responses);
    let serve = r#"
import os, socket
unread = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
unread.bind(("", 7000))
held = bytearray(30_000_000)
turns = 0
while True:
    for _ in range(20_000):
        turns += 1
    with open("counts.new", "w") as file:
        file.write(f"{{\n\tturns: {turns}\n\ta.b:c = 5\n\tstate: up\n}}\n")
    os.rename("counts.new", "counts")
"#;
    let send = r#"
import socket, sys, time
socket_ = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    socket_.sendto(bytes(500), (sys.argv[1], 7000))
    time.sleep(0.005)
"#;
    // The counter file is written before the program is ready, because it must exist when it is read for the first
    // time.
    let serve = serve
        .replace("unread.bind", "open(\"counts\", \"w\").write(\"turns = 0\\na.b:c = 5\\n\")\nunread.bind");
    std::fs::write(folder.path().join("serve.py"), serve).expect("it can be written");
    std::fs::write(folder.path().join("send.py"), send).expect("it can be written");
    let (code, document, told) = run(folder.path(), &["--traces"]);
    assert_eq!(code, Some(0), "{told}");
    let of =
        |response: &str| value(&document, response).unwrap_or_else(|| panic!("{response}: {document:#}"));
    // The used share of a processor depends on the machine, but does not exceed one.
    assert!(of("cpu") > 0.0 && of("cpu") <= of("cpu_max") && of("cpu_max") < 1.1, "{document:#}");
    assert!(of("memory") > 30e6, "{document:#}");
    assert!(of("queue") > 500.0 && of("drops") >= 1.0, "{document:#}");
    assert!(of("turns") > 0.0 && (of("turns") / 2.0 - of("turns_in_time")).abs() < 1e-6, "{document:#}");
    assert_eq!(of("still"), 0.0);
    let line = time_lines(folder.path());
    assert!(line.contains("sh: prepared in") || line.contains("python3: prepared in"), "{line}");
    assert!(line.contains("python3: turns grew by") && !line.contains("a.b:c grew"), "{line}");
    nothing_is_left(folder.path());
}

#[test]
fn what_fails_before_a_program_or_of_its_counters_is_told() {
    skip_unless!(can(&[]));
    let told_of = |program: &str| {
        let node =
            format!("[node.tester]\n[node.server]\napplication = {{ kind = \"program\", {program} }}\n");
        let folder = experiment("500 ms", &node, &[]);
        let (code, document, told) = run(folder.path(), &[]);
        assert_eq!(code, Some(1), "{told}");
        nothing_is_left(folder.path());
        document.to_string() + &told + &time_lines(folder.path())
    };
    let failed =
        told_of("command = [\"sleep\", \"1000\"], before = [[\"sh\", \"-c\", \"echo no room; exit 4\"]]");
    assert!(failed.contains("exit status: 4") && failed.contains("its last line: no room"), "{failed}");
    let unknown = told_of(
        "command = [\"sleep\", \"1000\"], counters = { command = [\"echo\", \"a = 1\"], names = [\"b\"] }",
    );
    assert!(unknown.contains("`sleep` has no counter `b`; it has: a"), "{unknown}");
    let silent = told_of("command = [\"sh\", \"-c\", \"echo I say nothing; exit 5\"], ready = \"sip:5060\"");
    assert!(
        silent.contains("before it was ready (sip:5060)") && silent.contains("I say nothing"),
        "{silent}"
    );
}

#[test]
fn a_counter_or_a_file_that_there_is_not_is_refused_where_it_stands() {
    let folder = experiment(
        "500 ms",
        "[node.tester]\n[node.server]\napplication = { kind = \"program\", command = [\"true\"], \
         counters = { command = [\"true\"], names = [\"requests\"] } }\n[response.r]\nof = \"node.server.counter.request\"\n\
         metric = \"counter_growth\"\n",
        &[],
    );
    let check = || text(&netrig(folder.path(), &["check", "served.toml"]).stderr);
    let told = check();
    assert!(told.contains("names a counter `request`") && told.contains("requests"), "{told}");
    let file = folder.path().join("served.toml");
    let missing = "[node.tester]\n[node.server]\napplication = { kind = \"program\", command = [\"true\"], files = { x = { file = \"none.cfg\" } } }\n";
    let whole = std::fs::read_to_string(&file).expect("it was written");
    let (before, _) = whole.split_once("[node.tester]").expect("it has nodes");
    std::fs::write(&file, before.to_owned() + missing).expect("it can be written");
    let told = check();
    assert!(told.contains("the file `none.cfg`"), "{told}");
}

/// The folder of the study.
fn study() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/sip-server")
}

/// Copies the files of the study to the folder of an experiment.
fn with_files_of_the_study(folder: &Path) {
    let files = std::fs::read_dir(study()).expect("the study is there").flatten();
    for file in files.filter(|file| file.path().is_file()) {
        std::fs::copy(file.path(), folder.join(file.file_name())).expect("it can be copied");
    }
}

/// An experiment with a server of the study in this role, with these definitions and preparation files. The tester
/// registers forty users.
fn kamailio(role: &str, over: &str, before: &str, more: &str, defines: &[&str]) -> tempfile::TempDir {
    let defines: String = defines.iter().map(|define| format!(", \"-A\", \"{define}\"")).collect();
    let binary = env!("CARGO_BIN_EXE_netrig");
    // Exit codes 1 (the server was too slow) and 3 (the tester was the limit) are accepted, because the load was
    // offered in both cases.
    let load = format!(
        "PASSWORD=secret {binary} sip load udp:{{address:server}}:5060 --scenario register --users 40 --count 40 \
         --rate 100/s --cpus 1 --domain lab.test --password-env PASSWORD || case $? in 1|3) true;; *) false;; esac"
    );
    let files = [
        "registrar.cfg",
        "proxy.cfg",
        "redirect.cfg",
        "common.cfg",
        "mkdb.sh",
        "mkdb-postgres.sh",
        "mkcert.sh",
    ];
    let files: Vec<_> = files.iter().map(|name| format!("\"{name}\" = {{ file = \"{name}\" }}")).collect();
    let files = files.join(", ");
    // PostgreSQL may answer late on a busy machine, and clients without an answer retransmit for seconds.
    let lasts = if more.is_empty() { "3 s" } else { "10 s" };
    let folder = experiment(
        lasts,
        &format!(
            r#"
[node.tester]
application = {{ kind = "program", command = ["sh", "-c", '{load}'] }}
[[node.server.application]]
kind = "program"
command = ["true"]
{more}
[[node.server.application]]
kind = "program"
command = ["kamailio", "-f", "{{folder}}/{role}.cfg", "-DD", "-E", "-m", "64", "-M", "8", "-Y", "{{folder}}", "-w", "{{folder}}"{defines}]
ready = "sip:{over}"
before = [{before}]
files = {{ {files} }}
counters = {{ command = ["kamcmd", "-s", "unixs:{{folder}}/ctl", "stats.fetch", "all"], names = ["core.rcv_requests_register", "registrar.accepted_regs"] }}
"#
        ),
        &[
            ("cpu", "node.server", "program_cpu"),
            ("memory", "node.server", "program_memory"),
            ("requests", "node.server.counter.core.rcv_requests_register", "counter_growth"),
            ("accepted", "node.server.counter.registrar.accepted_regs", "counter_growth"),
        ],
    );
    with_files_of_the_study(folder.path());
    folder
}

/// Runs the experiment. Returns the numbers of requests and of accepted registrations.
fn served(folder: &tempfile::TempDir) -> [f64; 2] {
    let (code, document, told) = run(folder.path(), &[]);
    let line = || time_lines(folder.path());
    assert_eq!(code, Some(0), "{told} {document:#} {}", line());
    let of = |response: &str| {
        value(&document, response).unwrap_or_else(|| panic!("{response}: {document:#} {}", line()))
    };
    assert!(of("cpu") > 0.0 && of("memory") > 1e6, "{document:#}");
    nothing_is_left(folder.path());
    ["requests", "accepted"].map(of)
}

const KAMAILIO: [&str; 4] =
    ["/usr/sbin/kamailio", "kamcmd", "sqlite3", "/usr/share/kamailio/db_sqlite/usrloc-create.sql"];
const SQLITE: &str = r#"["sh", "mkdb.sh", "users.sqlite", "100", "secret"]"#;

/// Forty users register. If the server challenges, each gets a challenge first. There may be more requests because of
/// retransmissions.
#[test]
fn the_registrar_of_the_study_keeps_bindings_in_each_way() {
    for (defines, asks) in [
        (&["DBMODE=0"][..], true),
        (&["DBMODE=1"], true),
        (&["DBMODE=2"], true),
        (&["DBMODE=3"], true),
        (&["WITH_AUTH_DB"], true),
        (&["WITH_NOAUTH"], false),
    ] {
        skip_unless!(can(&KAMAILIO));
        let [requests, accepted] = served(&kamailio("registrar", "5060", SQLITE, "", defines));
        assert!(
            accepted >= 40.0 && requests >= if asks { 80.0 } else { 40.0 },
            "{defines:?}: {requests} {accepted}"
        );
    }
}

#[test]
fn the_proxy_and_the_redirect_server_of_the_study_are_ready() {
    for (role, over, defines) in [
        ("proxy", "5060", &[][..]),
        ("proxy", "5060/tcp", &["WITH_STATELESS"]),
        ("proxy", "5060", &["WITH_NORR"]),
        ("redirect", "5060", &["WITH_FORK"]),
    ] {
        skip_unless!(can(&KAMAILIO));
        let [_, accepted] = served(&kamailio(role, over, SQLITE, "", defines));
        assert!(accepted >= 40.0, "{role} {defines:?}: {accepted}");
    }
}

#[test]
fn the_registrar_of_the_study_has_a_database_over_the_network() {
    let needs = [
        "/usr/sbin/kamailio",
        "psql",
        "/usr/share/kamailio/postgres/usrloc-create.sql",
        "setpriv",
        "unshare",
    ];
    skip_unless!(can(&needs));
    skip_unless!(can(&["/usr/lib/postgresql"]));
    let postgres = "[[node.server.application]]\nkind = \"program\"\ncommand = [\"unshare\", \"-m\", \"sh\", \"postgres.sh\"]\n\
                    ready = \"tcp:5432\"\npackages = [\"postgresql\"]\nfiles = { \"postgres.sh\" = { file = \"postgres.sh\" } }";
    let before = r#"["sh", "mkdb-postgres.sh", "100", "secret"]"#;
    for mode in ["DBMODE=1", "DBMODE=3"] {
        let [_, accepted] = served(&kamailio("registrar", "5060", before, postgres, &["WITH_PG", mode]));
        assert!(accepted >= 40.0, "{mode}: {accepted}");
    }
}

#[test]
fn the_server_of_the_study_speaks_tls() {
    skip_unless!(can(&[&KAMAILIO[..], &["openssl"]].concat()));
    let before = format!("{SQLITE}, [\"sh\", \"mkcert.sh\", \"{{address}}\"]");
    let [_, accepted] = served(&kamailio("proxy", "5060", &before, "", &["WITH_TLS"]));
    assert!(accepted >= 40.0, "{accepted}");
}
