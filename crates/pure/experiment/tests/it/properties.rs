//! Properties of any text as a file: reading never panics, each text is read or refused, and the positions of faults
//! exist.

use netrig_experiment::{Assignment, Experiment};
use netrig_test_support::corpus::replay;
use proptest::prelude::*;

use crate::any_text;

const FILES: [&str; 3] = [
    include_str!("files/mm1.toml"),
    include_str!("files/link-down.toml"),
    include_str!("files/dumbbell.toml"),
];

/// Words with a meaning in a file, and some without.
const WORDS: [&str; 40] = [
    "[factors]\n",
    "[[points]]\n",
    "[node.a]\n",
    "[node.b]\n",
    "[link.l]\n",
    "[flow.f]\n",
    "[[event]]\n",
    "[response.r]\n",
    "[transport.t]\n",
    "[replications]\n",
    "a = ",
    "count = ",
    "between = ",
    "[\"a\", \"b\"]\n",
    "rate = ",
    "delay = ",
    "queue = ",
    "{ kind = \"fifo\", packets = 5 }\n",
    "{ kind = ",
    "}",
    "\"${a}\"\n",
    "\"${a} ms\"\n",
    "\"${\"\n",
    "\"1 Mbit/s\"\n",
    "\"5 s\"\n",
    "-1\n",
    "0\n",
    "4294967295\n",
    "1.5\n",
    "true\n",
    "[1, 2, 3]\n",
    "at = ",
    "do = ",
    "{ down_for = \"1 s\" }\n",
    "link = \"l\"\n",
    "from = \"a\"\n",
    "to = \"b\"\n",
    "paths = [[]]\n",
    "\"\u{e9}\u{4e2d}\u{1f600}\"\n",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        any_text::check(&bytes);
    }

    #[test]
    fn any_words(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..40)) {
        any_text::check(format!("format = 1\nname = \"x\"\nduration = \"1 s\"\n{}", words.concat()).as_bytes());
    }

    /// A valid file in which a range of bytes was replaced.
    #[test]
    fn a_damaged_file(
        file in prop::sample::select(&FILES[..]),
        at in any::<prop::sample::Index>(),
        length in 0..30usize,
        by in prop_oneof![prop::sample::select(&WORDS[..]).prop_map(str::to_owned), ".{0,10}"],
    ) {
        let mut bytes = file.as_bytes().to_vec();
        let start = at.index(bytes.len());
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, by.into_bytes());
        any_text::check(&bytes);
    }

    #[test]
    fn any_levels(text in "[a-z=, 0-9${}%/.]{0,40}") {
        if let Ok(assignments) = Assignment::parse(&text) {
            let _ = Experiment::parse("mm1.toml", FILES[0]).unwrap().set(&assignments).map_err(|e| e.to_string());
        }
    }
}

/// Deeply nested tables, in every notation of TOML.
#[test]
fn nesting_does_not_exhaust_the_stack() {
    let dotted = vec!["a"; 70].join(".");
    let mut nested = "1".to_owned();
    for _ in 0..70 {
        nested = format!("{{ {dotted} = [{nested}] }}");
    }
    for text in
        [format!("[{dotted}]\n{dotted} = {nested}"), "[".repeat(100_000), "a.".repeat(100_000), nested]
    {
        any_text::check(format!("format = 1\n{text}").as_bytes());
    }
}

/// Inputs that fuzzing found.
#[test]
fn every_text_of_the_corpus_is_answered() {
    replay("experiment", 50, 0, any_text::check);
}

/// Small files with counts, paths and lists that multiply to a huge scenario.
#[test]
fn a_small_file_makes_no_plan_that_nothing_could_hold() {
    let base = FILES[0];
    let refused = |text: String, why: &str| {
        let error = Experiment::parse("any.toml", &text).expect_err(why).to_string();
        assert!(error.contains(why), "{error}");
    };
    let drops = format!("drop = {:?}\ncount = 100\n", (1..10_000).collect::<Vec<u32>>());
    refused(base.replacen("rate = ", &format!("{drops}rate = "), 1), "packets to be dropped");
    let mut chain = base.to_owned();
    for n in 1..=1000 {
        let before = if n == 1 { "sink".to_owned() } else { format!("n{}", n - 1) };
        chain += &format!("[node.n{n}]\n[link.l{n}]\nbetween = [\"{before}\", \"n{n}\"]\n");
        chain += "rate = \"1 Mbit/s\"\nqueue = { kind = \"fifo\", packets = 1 }\n";
    }
    chain += "[flow.far]\nfrom = \"source\"\nto = \"n1000\"\ncount = 2000\n";
    chain += "application = { kind = \"cbr\", rate = \"1 kbit/s\", size = \"100 B\" }\n";
    refused(chain, "links together");
}

/// Resolved points are cached for their replications, but only up to a total size.
#[test]
fn a_plan_keeps_no_more_than_it_can() {
    let events = "[[event]]\nat = \"1 s\"\nlink = \"line\"\n\
                  do = { flap = { down = \"1 ms\", up = \"1 ms\", times = 60000 } }\n";
    let plan = Experiment::parse("mm1.toml", format!("{}\n{events}", FILES[0])).unwrap().plan();
    let kept = |i| std::sync::Arc::ptr_eq(&plan.scenario(i).unwrap(), &plan.scenario(i).unwrap());
    assert!(plan.len() > 2 && kept(0) && !kept(1));
}
