//! Tests the JSON schema with an independent validator.

use std::collections::BTreeSet;

use jsonschema::Validator;
use netrig_experiment::{Experiment, schema};
use netrig_test_support::ExperimentText;
use serde_json::Value;

const FILES: [&str; 6] = [
    include_str!("files/mm1.toml"),
    include_str!("files/link-down.toml"),
    include_str!("files/dumbbell.toml"),
    include_str!("files/conditioned.toml"),
    include_str!("files/sip.toml"),
    include_str!("files/access.toml"),
];

fn validator() -> Validator {
    jsonschema::draft202012::new(&schema()).unwrap()
}

fn json(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap();
    serde_json::to_value(table).unwrap()
}

fn faults(validator: &Validator, text: &str) -> Vec<String> {
    validator.iter_errors(&json(text)).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn it_is_a_schema() {
    assert!(jsonschema::meta::is_valid(&schema()));
}

#[test]
fn good_files_are_valid() {
    let validator = validator();
    for text in FILES {
        assert_eq!(faults(&validator, text), Vec::<String>::new());
    }
}

#[test]
fn keys_of_multipath_tcp_are_valid_for_it_alone() {
    let validator = validator();
    let keys = "backup = true\nnet.mptcp.stale_loss_cnt = 2\nnet.mptcp.scheduler = \"default\"\n";
    let of = |kind: &str| FILES[1].replacen("kind = \"sctp\"\n", &format!("kind = \"{kind}\"\n{keys}"), 1);
    assert_eq!(faults(&validator, &of("mptcp")), Vec::<String>::new());
    assert!(!faults(&validator, &of("sctp")).is_empty());
}

#[test]
fn cables_and_programs_are_valid_as_they_are_written() {
    let text = ExperimentText::new("served", "1 s")
        .table("node.a", "cpus = [1]")
        .table(
            "node.b",
            r#"cpus = [0],
            application = { kind = "program", command = ["x"], before = [["sh", "y"]],
            ready = "sip:5060/tcp", files = { x = "z", y = { file = "y.sh" } },
            counters = { command = ["c"], names = ["core.n"], every = "1 s" } }"#,
        )
        .link("lan", "a b", r#"kind = "direct", mtu = "9000 B""#)
        .flow("f", "a b", r#"application = { kind = "cbr", interval = "1 ms", size = "100 B" }"#)
        .response("grown", "node.b.counter.core.n", "counter_growth")
        .build();
    let validator = validator();
    assert_eq!(faults(&validator, &text), Vec::<String>::new());
    let whole = text.replace("{ file = \"y.sh\" }", "\"\"");
    Experiment::parse("served.toml", whole).unwrap_or_else(|problems| panic!("{problems}"));
    for (right, wrong) in [
        ("kind = \"direct\"", "kind = \"direct\"\nrate = \"1 Gbit/s\""),
        ("sip:5060/tcp", "sip:5060/sctp"),
        ("file = \"y.sh\"", "files = \"y.sh\""),
        ("every = \"1 s\"", "each = \"1 s\""),
        ("cpus = [1]", "cpus = [\"one\"]"),
    ] {
        assert!(!faults(&validator, &text.replacen(right, wrong, 1)).is_empty(), "{wrong}");
    }
}

/// The schema and the reader agree about every fault that a schema can express.
#[test]
fn wrong_files_are_invalid_to_both() {
    let validator = validator();
    let mm1 = FILES[0];
    let mistakes = [
        ("format = 1", "format = 2"),
        ("name = \"mm1\"\n", ""),
        ("duration = \"1000 s\"", "duraton = \"1000 s\""),
        ("[node.source]", "[nodes.source]"),
        ("between = [\"source\", \"sink\"]", "between = [\"source\"]"),
        ("rate = \"1 Mbit/s\"\n", ""),
        ("unlimited = true", "unlimitd = true"),
        ("kind = \"fifo\"", "kind = \"lifo\""),
        ("kind = \"udp\"", "kind = \"upd\""),
        ("headers = \"none\"", "headers = \"all\""),
        ("headers = \"none\"", "mss = \"1 KB\""),
        ("kind = \"poisson\"", "kind = \"possion\""),
        ("size = { exponential = \"500 B\" }", "size = { exponental = \"500 B\" }"),
        ("interarrival = \"${load}\"", "interarrival = [\"${load}\"]"),
        ("of = \"link.line\"\n", ""),
        ("min = 10", "min = true"),
        ("within = [\"10 %\", \"20 us\"]", "within = []"),
        ("within = [\"10 %\", \"20 us\"]", "within = true"),
    ];
    for (right, wrong) in mistakes {
        assert!(mm1.contains(right), "{right}");
        let text = mm1.replacen(right, wrong, 1);
        assert!(!faults(&validator, &text).is_empty(), "the schema accepts {wrong}");
        assert!(Experiment::parse("mm1.toml", text).is_err(), "the reader accepts {wrong}");
    }
}

#[test]
fn presets_and_hosts_are_valid_as_they_are_written() {
    let validator = validator();
    for (right, wrong) in [
        ("preset = \"${line}\"", "preset = \"isdn\""),
        ("preset = \"${line}\"\n", ""),
        ("reverse = { loss", "reverse = { preset = \"adsl\", loss"),
        ("fragmentation = \"allowed\"", "fragmentation = \"sometimes\""),
        ("memory = \"64 MB\"", "memory = true"),
        ("net.core.somaxconn = 64", "net.core.somaxconn = [64]"),
        ("receive_buffer = \"64 KiB\"", "receive_buffer = true"),
    ] {
        assert!(FILES[5].contains(right), "{right}");
        let text = FILES[5].replacen(right, wrong, 1);
        assert!(!faults(&validator, &text).is_empty(), "the schema accepts {wrong}");
        assert!(Experiment::parse("access.toml", text).is_err(), "the reader accepts {wrong}");
    }
}

/// A placeholder may replace any value, including numbers and names.
#[test]
fn placeholders_are_valid_anywhere() {
    let validator = validator();
    let places = [
        ("min = 10", "min = \"${load}\""),
        ("packets = 50 }", "packets = \"${packets}\" }"),
        ("kind = \"fifo\", packets = 50", "kind = \"${kind}\", packets = 50"),
        ("shape = \"${shape}\" } }", "shape = \"${a}${b}\" } }"),
        ("sources = 6", "sources = \"${sources}\""),
        ("path_max_retrans = 5", "path_max_retrans = \"${n}\""),
        ("direction = \"both\"", "direction = \"${way}\""),
        ("profile = \"${profile}\"", "kind = \"tcp\"\nprofile = \"${a}\""),
        ("confidence = 0.95", "confidence = \"${c}\""),
    ];
    for (old, new) in places {
        let Some(text) = FILES.iter().find(|text| text.contains(old)) else { panic!("{old}") };
        let text = text.replacen(old, new, 1).replacen("kind = \"tcp\"\nkind = \"tcp\"", "kind = \"tcp\"", 1);
        assert_eq!(faults(&validator, &text), Vec::<String>::new(), "{new}");
    }
}

/// Collects every key and every word of a schema and of the definitions to which it refers.
fn words(schema: &Value, root: &Value, seen: &mut BTreeSet<String>, words: &mut BTreeSet<String>) {
    match schema {
        Value::Object(object) => {
            for (key, inner) in object {
                match (key.as_str(), inner) {
                    ("properties", Value::Object(properties)) => words.extend(properties.keys().cloned()),
                    ("const", Value::String(word)) => drop(words.insert(word.clone())),
                    ("enum", Value::Array(names)) => {
                        words.extend(names.iter().filter_map(|name| name.as_str().map(str::to_owned)));
                    }
                    ("$ref", Value::String(path)) if seen.insert(path.clone()) => {
                        self::words(root.pointer(&path[1..]).unwrap(), root, seen, words);
                    }
                    _ => {}
                }
                self::words(inner, root, seen, words);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|inner| self::words(inner, root, seen, words)),
        _ => {}
    }
}

#[test]
fn the_pages_name_every_key_and_word() {
    let pages = [
        include_str!("../../../../../docs/file-format.md"),
        include_str!("../../../../../docs/claims-and-tables.md"),
    ]
    .concat();
    // Splits words with dots kept (`802.11g`) and with dots as separators (`flow.NAME`).
    let with = |dot: bool| {
        move |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '+') || dot && c == '.')
    };
    let dotted = pages.split(with(true)).map(|word| word.trim_matches('.'));
    let named: BTreeSet<&str> = pages.split(with(false)).chain(dotted).collect();
    let schema = schema();
    let (mut seen, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (section, inner) in schema["properties"].as_object().unwrap() {
        known.insert(section.clone());
        if section != "transport" {
            words(inner, &schema, &mut seen, &mut known);
        }
    }
    // The pages need not name the constants of endpoints, which `netrig show profile` prints. So of the transports,
    // only UDP, which has no constants, is checked.
    let kinds = schema["properties"]["transport"]["additionalProperties"]["anyOf"].as_array().unwrap();
    words(kinds.last().unwrap(), &schema, &mut seen, &mut known);
    let missing: Vec<&String> = known.iter().filter(|word| !named.contains(word.as_str())).collect();
    assert!(missing.is_empty(), "the pages do not name {missing:?}");
    assert!(known.len() > 100, "only {} words were found", known.len());
}
